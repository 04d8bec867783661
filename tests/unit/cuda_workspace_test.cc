// Scratch space on a card: numbers computed by hand from types and attributes.
#include <gtest/gtest.h>

#include "runtime/plan/runtime_op.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

constexpr int64_t kMiB = 1024 * 1024;

// A node of float32 tensors.
struct Planned {
  Graph graph;
  Node node;

  Planned(const std::string& op, const std::vector<Dims>& inputs, const std::vector<Dims>& outputs) {
    node.op = op;
    for (const Dims& dims : inputs) node.inputs.push_back(Add(dims));
    for (const Dims& dims : outputs) node.outputs.push_back(Add(dims));
  }
  template <class T>
  Planned& With(const char* name, T value) {
    node.attrs.Set(name, value);
    return *this;
  }
  int64_t Bytes(int64_t batch, int64_t limit = 0) const {
    return WorkspaceBound(node, graph, CudaTarget(), limit).At(batch);
  }

 private:
  ValueId Add(const Dims& dims) {
    graph.values.push_back({"", {DType::kFloat32, dims}, ValueKind::kActivation, {}});
    return static_cast<ValueId>(graph.values.size() - 1);
  }
};

const Dim n = Dim::Batch();

TEST(CudaWorkspace, AConvolutionHasItsWeightsInAnotherOrderAndTwiceItsOperands) {
  const int64_t weights = 64 * 32 * 9 * 4;  // a multiple of 256
  const Planned conv("Conv", {{n, 14, 14, 32}, {64, 32, 3, 3}}, {{n, 14, 14, 64}});
  const int64_t sample = 14 * 14 * (32 + 64) * 4;
  EXPECT_EQ(conv.Bytes(1), weights + 2 * (sample + weights));
  EXPECT_EQ(conv.Bytes(10), weights + 2 * (10 * sample + weights));
  EXPECT_EQ(conv.Bytes(100'000), weights + 64 * kMiB);
  EXPECT_EQ(conv.Bytes(100'000, kMiB), kMiB);
  EXPECT_EQ(conv.Bytes(1, 1000), 1000);

  const Planned data("ConvGradInput", {{n, 14, 14, 64}, {64, 32, 3, 3}}, {{n, 14, 14, 32}});
  EXPECT_EQ(data.Bytes(10), conv.Bytes(10));
  const Planned weight("ConvGradWeight", {{n, 14, 14, 64}, {n, 14, 14, 32}}, {{64, 32, 3, 3}});
  EXPECT_EQ(weight.Bytes(10), conv.Bytes(10));
}

TEST(CudaWorkspace, WeightsOfOnePixelStayInTheirOrder) {
  const Planned conv("Conv", {{n, 7, 7, 32}, {64, 32, 1, 1}, {64}}, {{n, 7, 7, 64}});
  EXPECT_EQ(conv.Bytes(1), 2 * (7 * 7 * 32 + 64 * 32 + 64 + 7 * 7 * 64) * 4);
  EXPECT_EQ(conv.Bytes(1 << 20), 64 * kMiB);
}

TEST(CudaWorkspace, AProductHasWhatCublasRecommends) {
  const Planned small("MatMul", {{n, 100}, {100, 10}}, {{n, 10}});
  EXPECT_EQ(small.Bytes(3), 2 * (300 + 1000 + 30) * 4);
  EXPECT_EQ(small.Bytes(1 << 20), 32 * kMiB);
  EXPECT_EQ(small.Bytes(1 << 20, 4 * kMiB), 4 * kMiB);
}

TEST(CudaWorkspace, AttentionTakesNone) {
  const Dims heads = {n, 8, 128, 64};
  EXPECT_EQ(Planned("Attention", {heads, heads, heads}, {heads}).Bytes(16), 0);
}

TEST(CudaWorkspace, TheGradientOfAttentionHoldsThoseOfAsManyHeadsAsFit) {
  const Dims heads = {n, 8, 128, 64};
  const int64_t head = 128 * (12 + 3 * 64 * 4), gaps = 1024;
  const Planned grad("AttentionGrad", {heads, heads, heads, heads}, {heads, heads, heads});
  EXPECT_EQ(grad.Bytes(1), 8 * head + gaps);
  EXPECT_EQ(grad.Bytes(16), 128 * head + gaps);
  EXPECT_EQ(grad.Bytes(1000), 32 * kMiB + gaps);
  // Of time-major heads, [N,T,H,D].
  const Dims stored = {n, 128, 8, 64};
  Planned moved("AttentionGrad", {stored, stored, stored, stored}, {stored, stored, stored});
  for (const char* perm : {"perm_q", "perm_k", "perm_v", "perm_o"})
    moved.With(perm, std::vector<int64_t>{0, 2, 1, 3});
  EXPECT_EQ(moved.Bytes(16), grad.Bytes(16));
  // At least one head of keys, with all heads of queries that read it.
  const Dims q = {n, 8, 100, 64}, k = {n, 2, Dim(kMiB), 64};
  EXPECT_EQ(Planned("AttentionGrad", {q, q, k, k}, {q, k, k}).Bytes(1),
            4 * (100 * (12 + 64 * 4) + kMiB * 2 * 64 * 4) + gaps);
  // And parts of the gradient of a bias.
  const Dims bias = {128, 128};
  EXPECT_EQ(
      Planned("AttentionGrad", {heads, heads, heads, heads, bias}, {heads, heads, heads, bias}).Bytes(2),
      16 * head + gaps + 32 * 128 * 128 * 4);  // 2^19 / 128^2 parts
}

TEST(CudaWorkspace, StatisticsAndReductionsHaveTheirParts) {
  EXPECT_EQ(Planned("BatchNormStats", {{n, 7, 7, 2048}}, {{2048}, {2048}}).Bytes(1), 32 * 2048 * 24);
  EXPECT_EQ(Planned("BatchNormStats", {{n, 7, 7, 64}}, {{64}, {64}}).Bytes(1), 512 * 64 * 24);
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "IntegerReduce"}) {
    EXPECT_EQ(Planned(op, {{n, 16}}, {{16}}).Bytes(1), 512 * 16 * 8) << op;
    EXPECT_EQ(Planned(op, {{n, 16}}, {{n, 1}}).Bytes(1), 0) << op;
    EXPECT_EQ(Planned(op, {{n, Dim(kMiB)}}, {{Dim(kMiB)}}).Bytes(1), 0) << op << " in one part";
  }
  for (const char* op : {"SoftmaxCrossEntropy", "CountCorrect"}) {
    const bool has_probabilities = op == std::string("SoftmaxCrossEntropy");
    const std::vector<Dims> results =
        has_probabilities ? std::vector<Dims>{{}, {n, 10}} : std::vector<Dims>{{}};
    EXPECT_EQ(Planned(op, {{n, 10}, {n}}, results).Bytes(1), 512 * 16) << op;
  }
  EXPECT_EQ(Planned("SoftmaxCrossEntropyGrad", {{}, {n, 10}, {n}}, {{n, 10}}).Bytes(1), 512 * 16);
}

TEST(CudaWorkspace, ALoopHasItsColumnSumsInPartsOfFourRows) {
  Planned loop("Fused", {{n, 100, 8}}, {{8}, {8}});
  loop.node.program.space = {n, 100, 8};
  loop.node.program.inputs = {{}};
  loop.node.program.outputs = {{OutputKind::kSum, 0, {}, 0}, {OutputKind::kSum, 0, {}, 0}};
  EXPECT_EQ(loop.Bytes(1), 2 * (1 + 25) * 8 * 8);
  EXPECT_EQ(loop.Bytes(10), 2 * (1 + 250) * 8 * 8);
  EXPECT_EQ(loop.Bytes(1000), 2 * 512 * 8 * 8);
  EXPECT_EQ(loop.Bytes(1000, 1024), 1024);
  // Columns that vary with the batch: the parts of any number of columns.
  Planned varying("Fused", {{Dim(100), n, Dim(8)}}, {{n, Dim(8)}});
  varying.node.program = loop.node.program;
  varying.node.program.outputs.pop_back();
  for (const int64_t batch : {1, 100, 10'000})
    EXPECT_GE(varying.Bytes(batch), CudaTarget().LoopSumParts(8 * batch) * 8 * batch * 8) << batch;
  EXPECT_LE(varying.Bytes(1 << 20), 8 * (1 << 20) * 8 + 16 * kMiB);
}

TEST(CudaWorkspace, AScatterSortsItsRows) {
  const Planned rows("Scatter", {{n, 8}, {n, 1}}, {{5000, 8}});
  EXPECT_EQ(rows.Bytes(300), 300 * (16 + 1 + 2) + CudaScatterBytes(1, 8 * 4) + 4096);
  for (const int64_t batch : {1, 31, 2048, 2049, 100'000})
    EXPECT_GE(rows.Bytes(batch), CudaScatterBytes(batch, 8 * 4)) << batch;
  // An index for each element.
  const Planned elements("Scatter", {{n, 8}, {n, 8}}, {{5000, 8}});
  for (const int64_t batch : {1, 31, 2048, 2049, 100'000})
    EXPECT_GE(elements.Bytes(batch), CudaScatterBytes(8 * batch, 4)) << batch;
}

TEST(CudaWorkspace, ATopKOfManySortsItsRows) {
  const Planned many("TopK", {{n, 5000}}, {{n, 50}});
  for (const int64_t batch : {1, 3, 100}) EXPECT_GE(many.Bytes(batch), CudaSortBytes(5000 * batch)) << batch;
  EXPECT_EQ(many.Bytes(3), 3 * 5000 * 17 + CudaSortBytes(1));
  // Few are selected, and few are left out.
  EXPECT_EQ(Planned("TopK", {{n, 5000}}, {{n, 16}}).Bytes(3), 0);
  EXPECT_EQ(Planned("TopK", {{n, 256}}, {{n, 256}}).Bytes(3), 0);
  // Extents that vary with the batch may be many.
  EXPECT_GE(Planned("TopK", {{Dim(2), n}}, {{Dim(2), n}}).Bytes(300), CudaSortBytes(600));
}

TEST(CudaWorkspace, NonZeroCounts) {
  EXPECT_EQ(Planned("NonZero", {{5000}}, {{1, 5000}, {5000}}).Bytes(1), CudaNonZeroBytes(5000));
  EXPECT_EQ(CudaNonZeroBytes(5000), 4 * (3 + 1));
  const Planned varying("NonZero", {{n, 70}}, {{Dim(2), n * Dim(70)}, {n * Dim(70)}});
  for (const int64_t batch : {1, 29, 30, 1000, 100'000})
    EXPECT_GE(varying.Bytes(batch), CudaNonZeroBytes(70 * batch)) << batch;
  EXPECT_LT(varying.Bytes(1 << 24), 5 * kMiB);
}

TEST(CudaWorkspace, TheGradientOfASampledImageHoldsThePartsOfManySamples) {
  const Dims image = {n, 28, 28, 16}, grid = {n, 40, 30, 2}, y = {n, 40, 30, 16};
  Planned grad("GridSampleGradInput", {y, grid}, {image});
  EXPECT_EQ(grad.Bytes(3), 3 * (40 * 30 * 4 * 25 + CudaGridGradientBytes(1)));
  for (const int64_t batch : {1, 7, 100})
    EXPECT_GE(grad.Bytes(batch), CudaGridGradientBytes(batch * 40 * 30 * 4)) << batch;
  EXPECT_EQ(grad.Bytes(100'000), 64 * kMiB);
  EXPECT_EQ(grad.With("mode", std::string("cubic")).Bytes(1), 40 * 30 * 16 * 25 + CudaGridGradientBytes(1));
  // At least one sample.
  const Planned large("GridSampleGradInput", {{n, 2000, 2000, 1}, {n, 2000, 2000, 2}}, {{n, 10, 10, 1}});
  EXPECT_GE(large.Bytes(1), CudaGridGradientBytes(2000 * 2000 * 4));
  EXPECT_EQ(large.Bytes(9), large.Bytes(1));
}

TEST(CudaWorkspace, ARecurrentStepHasAProductAndItsGates) {
  const Planned lstm("Lstm", {{n, 20, 64}, {64, 16}},
                     {{n, 20, 16}, {n, 16}, {n, 20, 64}, {n, 20, 16}, {n, 20, 16}});
  ASSERT_EQ(WrongCounts(lstm.node), std::nullopt);
  EXPECT_EQ(lstm.Bytes(3), 4 * kMiB + 3 * (64 + 16) * 4);
}

// Layouts of a smaller last batch rely on it.
TEST(CudaWorkspace, NeverFallsAsTheBatchGrows) {
  const Planned conv("Conv", {{n, 14, 14, 32}, {64, 32, 3, 3}}, {{n, 14, 14, 64}});
  int64_t before = 0;
  for (int64_t batch = 1; batch < 1 << 16; batch *= 2) {
    EXPECT_GE(conv.Bytes(batch), before);
    before = conv.Bytes(batch);
  }
}

}  // namespace
}  // namespace act
