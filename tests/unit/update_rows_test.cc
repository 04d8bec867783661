// Kernels of updates by rows: against the reference kernel, which makes the gradient whole, and against plain loops.
#include "tests/unit/update_rows_case.h"

#include <algorithm>
#include <cmath>

#include "runtime/plan/row_update.h"

namespace act {
namespace {

// One chunk and several; a last chunk of few rows; one row; rows of one element and of odd lengths; no index; a
// table without rows or without columns.
const std::vector<TableRows> kTables = {{{4000, 70}, 900},
                                        {{1, 5}, 6},
                                        {{30, 7}, 90, DType::kInt32, true},
                                        {{300000}, 1000, DType::kInt64, true},
                                        {{700, 400}, 50},
                                        {{512, 16, 33}, 20},
                                        {{600, 769}, 0},
                                        {{0, 4}, 0},
                                        {{3, 0}, 2}};

TEST(UpdateRowsKernels, AgreeWithTheReference) {
  for (const TableRows& t : kTables)
    for (const OpCase& c : AllRowsCases(t, 3)) {
      // State in few bits: the same arithmetic. Loops: the reference rounds once from double.
      EXPECT_GT(CompareWithReference(c, c.program.Empty() ? 0 : 1e-6), 0)
          << c.op << " " << t.table[0] << " rows";
    }
}

TEST(UpdateRowsKernels, AgreeWithPlainLoops) {
  for (const TableRows& t : kTables) {
    const OpCase c = UpdateRowsCase(t, 8);
    const OpResult result = RunReference(c);
    ASSERT_EQ(result.error, "");
    const int64_t length = t.table[0] > 0 ? ElementCount(t.table) / t.table[0] : 0;
    std::vector<double> g(static_cast<size_t>(ElementCount(t.table)), 0);
    for (int64_t i = 0; i < t.indices; ++i) {
      if (t.live && i % 3 == 1) continue;
      int64_t row = t.index == DType::kInt64 ? c.inputs[5].as<int64_t>()[i] : c.inputs[5].as<int32_t>()[i];
      if (row < 0) row += t.table[0];
      for (int64_t k = 0; k < length; ++k)
        g[static_cast<size_t>(row * length + k)] +=
            static_cast<double>(c.inputs[1].as<float>()[i * length + k]);
    }
    for (size_t i = 0; i < g.size(); ++i) {
      const double v = .9 * static_cast<double>(c.inputs[2].as<float>()[i]) + g[i];
      ASSERT_NEAR(result.tensors[1].as<float>()[i], v, 1e-4) << i;
      ASSERT_NEAR(result.tensors[0].as<float>()[i], static_cast<double>(c.inputs[0].as<float>()[i]) - .1 * v,
                  1e-4);
    }
  }
}

// Few rows, many, and both in one table; a row that occurs often; a last chunk of one row.
const std::vector<TableRows> kSparseTables = {
    {{4000, 70}, 20}, {{4000, 70}, 900},  {{30, 7}, 3},       {{300000}, 60, DType::kInt32, true},
    {{700, 400}, 8},  {{16385, 64}, 300}, {{512, 16, 33}, 9}, {{600, 769}, 30, DType::kInt64, true},
    {{600, 769}, 0},  {{0, 4}, 0},        {{3, 0}, 2},        {{9, 140000}, 2}};

// Every third index is one of two rows, so that rows occur again, in several chunks.
OpCase SparseCase(const TableRows& t, float decay) {
  OpCase c = SparseRowsCase(t, 4, decay);
  for (int64_t i = 0; i < t.indices; i += 3) {
    const int64_t row = i % 2 == 0 ? t.table[0] - 1 : t.table[0] / 2;
    if (t.index == DType::kInt64)
      c.inputs[4].as<int64_t>()[i] = row;
    else
      c.inputs[4].as<int32_t>()[i] = static_cast<int32_t>(row);
  }
  return c;
}

TEST(UpdateRowsKernels, SparseUpdatesGiveTheBitsOfWholeOnes) {
  const KernelEntry& entry = CpuRegistry().For("UpdateRows").front();
  for (const TableRows& t : kSparseTables)
    for (const float decay : {0.0f, .1f}) {
      const OpCase sparse = SparseCase(t, decay);
      OpCase whole = sparse;
      whole.attrs.Set("sparse", int64_t{0});
      EXPECT_GT(CompareWithReference(sparse, 1e-6), 0) << t.table[0] << " rows";
      const OpResult expected = RunKernel(entry, whole, 2, PlannedWorkspace(whole));
      ASSERT_EQ(expected.error, "");
      for (const int threads : {1, 2, 5}) {
        const OpResult result = RunKernel(entry, sparse, threads, PlannedWorkspace(sparse));
        ASSERT_EQ(result.error, "");
        EXPECT_EQ(result.tensors[0].bytes, expected.tensors[0].bytes)
            << t.table[0] << " rows, decay " << decay << ", " << threads << " threads";
      }
    }
}

// An update of all rows makes NaN of infinity, which it multiplies by the decay.
TEST(UpdateRowsKernels, SparseUpdatesLeaveRowsWithoutAGradientAlone) {
  const TableRows t{{4000, 70}, 20};
  for (const float decay : {0.0f, .1f}) {
    OpCase c = SparseRowsCase(t, 5, decay);
    std::vector<bool> has_gradient(4000, false);
    for (int64_t i = 0; i < t.indices; ++i) {
      const int64_t row = c.inputs[4].as<int64_t>()[i];
      has_gradient[static_cast<size_t>(row < 0 ? row + 4000 : row)] = true;
    }
    float* table = c.inputs[0].as<float>();
    for (size_t row = 0; row < 4000; ++row)
      if (!has_gradient[row]) std::fill_n(table + row * 70, 70, INFINITY);
    const OpResult result = RunKernel(CpuRegistry().For(c.op).front(), c, 2, PlannedWorkspace(c));
    ASSERT_EQ(result.error, "");
    for (size_t row = 0; row < 4000; ++row) {
      const float number = result.tensors[0].as<float>()[row * 70 + row % 70];
      if (has_gradient[row]) {
        EXPECT_TRUE(std::isfinite(number));
      } else {
        EXPECT_EQ(std::isinf(number), decay == 0) << row;
      }
    }
  }
}

// The same bits on several threads are what CompareWithReference expects of them.
TEST(UpdateRowsKernels, AddARowThatOccursOftenInOrder) {
  TableRows t{{4000, 70}, 3};
  OpCase c = UpdateRowsCase(t, 1);
  std::fill_n(c.inputs[5].as<int64_t>(), 3, -1);
  std::fill_n(c.inputs[0].as<float>(), 4000 * 70, 0.0f);
  std::fill_n(c.inputs[2].as<float>(), 4000 * 70, 0.0f);
  // (1e8 + 1) - 1e8 is 0 in this order, and 1 in others.
  for (int64_t k = 0; k < 70; ++k) {
    c.inputs[1].as<float>()[k] = 1e8f;
    c.inputs[1].as<float>()[70 + k] = 1;
    c.inputs[1].as<float>()[140 + k] = -1e8f;
  }
  for (const int threads : {1, 2, 5}) {
    const OpResult result = RunKernel(CpuRegistry().For(c.op).front(), c, threads, PlannedWorkspace(c));
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.tensors[1].as<float>()[3999 * 70 + 5], 0);
  }
}

TEST(UpdateRowsKernels, RefuseAnIndexOutsideTheTableAndChangeNothing) {
  const TableRows t{{4000, 70}, 900};
  for (OpCase c : AllRowsCases(t, 3))
    for (const int64_t bad : {int64_t{4000}, int64_t{-4001}, INT64_MAX, INT64_MIN}) {
      const auto index = static_cast<size_t>(c.attrs.Ints("row_gradient")[2]);
      c.inputs[index].as<int64_t>()[899] = bad;
      for (const KernelEntry& entry : CpuRegistry().For(c.op)) {
        const OpResult result = RunKernel(entry, c, 2, PlannedWorkspace(c));
        EXPECT_EQ(result.error,
                  "index " + std::to_string(bad) + " at [899,0] is outside an axis of extent 4000");
        for (size_t i = 0; i < c.mutates.size(); ++i)
          EXPECT_EQ(result.tensors[i].bytes, c.inputs[static_cast<size_t>(c.mutates[i])].bytes) << entry.name;
      }
    }
}

// A hostile plan may give any shapes.
TEST(UpdateRowsKernels, RefuseOperandsThatDoNotFit) {
  const TableRows t{{40, 7}, 9};
  for (const OpCase& c : AllRowsCases(t, 3)) {
    const std::vector<int64_t> at = c.attrs.Ints("row_gradient");
    const auto table = static_cast<size_t>(at[0]), rows = static_cast<size_t>(at[1]),
               index = static_cast<size_t>(at[2]);
    const std::vector<std::pair<size_t, TestTensor>> others = {
        {rows, Random({9, 6}, 1)},  {rows, Random({9}, 1)},
        {rows, Random({8, 7}, 1)},  {rows, Empty({9, 7}, DType::kInt64)},
        {index, Random({9, 1}, 1)}, {index, Labels({9}, std::vector<int64_t>(9))},
        {table, Random({40}, 1)},   {table, Random({40, 8}, 1)},
    };
    for (const auto& [place, other] : others)
      for (const KernelEntry& entry : CpuRegistry().For(c.op)) {
        OpCase wrong = c;
        wrong.inputs[place] = other;
        EXPECT_TRUE(RunKernel(entry, wrong, 1, int64_t{1} << 24).refused) << entry.name << " " << place;
      }
    OpCase nameless = c;
    nameless.attrs.Set("row_gradient", std::vector<int64_t>{0, 1});
    for (const KernelEntry& entry : CpuRegistry().For(c.op))
      EXPECT_TRUE(RunKernel(entry, nameless, 1, int64_t{1} << 24).refused) << entry.name;
  }
}

TEST(RowChunks, HoldWholeBlocksOfMomentsAndAllRows) {
  for (const int64_t row : {1, 3, 64, 70, 256, 768, 769, 200000})
    for (const int64_t rows : {0, 1, 2, 100, 30522}) {
      const RowChunks chunks = RowChunksOf(rows, row);
      if (rows == 0) {
        EXPECT_EQ(chunks.chunks, 0);
        continue;
      }
      EXPECT_GE(chunks.chunks * chunks.rows, rows);
      EXPECT_LT((chunks.chunks - 1) * chunks.rows, rows);
      if (chunks.chunks > 1) {
        EXPECT_EQ(chunks.rows * row % 256, 0) << rows << " x " << row;
      }
      EXPECT_TRUE(chunks.chunks == 1 || chunks.rows * row <= std::max(kRowChunkElements, 256 * row));
    }
  EXPECT_EQ(RowChunksOf(30522, 768).rows, 170);
}

}  // namespace
}  // namespace act
