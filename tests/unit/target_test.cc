// Parts of sums come from the target, in the bounds of a plan as in kernels.
#include "runtime/base/target.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/plan/program.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

// A machine of many small processors: parts by the number of columns.
class ManyBlocks final : public Target {
 public:
  TargetKind kind() const override { return TargetKind::kCpu; }
  int64_t LoopSumParts(int64_t columns) const override { return columns > 0 ? 4096 / columns : 4096; }
  int64_t RowSumParts(int64_t columns) const override { return 1024 / columns; }
  int64_t SharedGradientParts(int64_t elements) const override { return elements < 100 ? 200 : 3; }
};

TEST(CpuTarget, MakesSumsInAtMostSixteenParts) {
  const Target& cpu = CpuTarget();
  EXPECT_EQ(cpu.LoopSumParts(0), 16);
  EXPECT_EQ(cpu.LoopSumParts(8192), 16);
  EXPECT_EQ(cpu.LoopSumParts(8193), 2);
  EXPECT_EQ(cpu.RowSumParts(1), 16);
  EXPECT_EQ(cpu.RowSumParts(1 << 20), 16);
  EXPECT_EQ(cpu.SharedGradientParts(0), 1);
  EXPECT_EQ(cpu.SharedGradientParts(1), 16);
  EXPECT_EQ(cpu.SharedGradientParts(1 << 14), 16);
  EXPECT_EQ(cpu.SharedGradientParts(1 << 16), 4);
  EXPECT_EQ(cpu.SharedGradientParts(1 << 20), 1);
}

TEST(CudaTarget, MakesEnoughPartsForACardOfManyMultiprocessors) {
  const Target& cuda = CudaTarget();
  EXPECT_EQ(cuda.LoopSumParts(0), 512);
  EXPECT_EQ(cuda.LoopSumParts(64), 512);
  EXPECT_EQ(cuda.RowSumParts(2048), 32);
  EXPECT_EQ(cuda.SharedGradientParts(64), 64);
  EXPECT_EQ(cuda.SharedGradientParts(kTooLarge), 1);
  // A block reduces at most 128 columns.
  for (int64_t columns = 1; columns <= 1 << 21; columns = columns * 3 / 2 + 1)
    EXPECT_GE(cuda.RowSumParts(columns) * CeilDiv(columns, 128), 256) << columns;
  // A block sums all columns of its loop.
  EXPECT_EQ(cuda.LoopSumParts(4096), 512);
  EXPECT_EQ(cuda.LoopSumParts(8192), 256);
}

TEST(Target, PartialSumsAreBoundedForEveryNumberOfColumns) {
  for (const TargetKind kind : kTargets) {
    const Target& target = TargetOf(kind);
    EXPECT_EQ(target.kind(), kind);
    EXPECT_EQ(ParseTargetKind(ToString(kind)), kind);
    int64_t parts = target.LoopSumParts(0);
    for (int64_t n = 1; n <= 1 << 22; n = n * 3 / 2 + 1) {
      EXPECT_LE(target.LoopSumParts(n), parts) << "more columns, more parts";
      parts = target.LoopSumParts(n);
      // Columns that vary with the batch have a bound for each N.
      EXPECT_LE(parts * n, target.LoopPartialSums(Dim::Batch()).At(n)) << ToString(kind) << n;
      EXPECT_EQ(parts * n, target.LoopPartialSums(Dim(n)).At(1));
    }
  }
  EXPECT_EQ(ParseTargetKind("gpu"), std::nullopt);
}

// A node with one operand and a result, or as many as its operator has to have, all of one type.
struct Summing {
  Graph graph;
  Node node;
  Summing(const std::string& op, const Dims& in, const Dims& out) {
    node.op = op;
    const auto add = [this](const Dims& dims) {
      graph.values.push_back({"", {DType::kFloat32, dims}, ValueKind::kActivation, {}});
      return static_cast<ValueId>(graph.values.size() - 1);
    };
    node.inputs = {add(in)};
    const int least = std::max(1, FindRuntimeOp(op)->results.least);
    node.outputs.assign(static_cast<size_t>(least), add(out));
  }
  int64_t Bound(const Target& target) const { return WorkspaceBound(node, graph, target, 0).At(1); }
};

TEST(WorkspaceBound, IsThatOfTheTarget) {
  const Dim n = Dim::Batch();
  const Summing statistics("BatchNormStats", {n, Dim(64)}, {Dim(64)});
  EXPECT_EQ(statistics.Bound(CpuTarget()), 16 * BatchNormPartBytes(64));
  EXPECT_EQ(statistics.Bound(ManyBlocks()), 16 * BatchNormPartBytes(64));
  const Summing narrow("BatchNormStats", {n, Dim(8)}, {Dim(8)}), sum("ReduceSum", {n, Dim(8)}, {Dim(8)});
  EXPECT_EQ(narrow.Bound(CpuTarget()), 16 * BatchNormPartBytes(8));
  EXPECT_EQ(narrow.Bound(ManyBlocks()), 128 * BatchNormPartBytes(8));
  EXPECT_EQ(sum.Bound(CpuTarget()), 16 * ReducePartBytes(8));
  EXPECT_EQ(sum.Bound(ManyBlocks()), 128 * ReducePartBytes(8));
}

TEST(WorkspaceBound, OfALoopIsThatOfTheTarget) {
  Summing loop("Fused", {Dim::Batch(), Dim(8)}, {Dim(8)});
  loop.node.program.space = {Dim::Batch(), Dim(8)};
  loop.node.program.inputs = {{}};
  loop.node.program.outputs = {{OutputKind::kSum, 0, {}, 0}};
  EXPECT_EQ(loop.Bound(CpuTarget()), 16 * 8 * 8 + 64);
  EXPECT_EQ(loop.Bound(ManyBlocks()), 512 * 8 * 8 + 64);
}

// The bias's gradient is result 3; its parts come on top of what each thread needs.
TEST(WorkspaceBound, OfAttentionsBiasIsThatOfTheTarget) {
  const Dims heads = {Dim::Batch(), Dim(2), Dim(7), Dim(4)};
  Summing attention("AttentionGrad", heads, heads);
  attention.node.inputs.resize(4, attention.node.inputs[0]);
  attention.node.outputs.resize(3, attention.node.outputs[0]);
  const int64_t without = attention.Bound(CpuTarget());
  attention.graph.values.push_back({"", {DType::kFloat32, {Dim(7), Dim(7)}}, ValueKind::kActivation, {}});
  attention.node.outputs.push_back(static_cast<ValueId>(attention.graph.values.size() - 1));
  EXPECT_EQ(attention.Bound(CpuTarget()) - without, 16 * 49 * 4 + 64);
  EXPECT_EQ(attention.Bound(ManyBlocks()) - without, 200 * 49 * 4 + 64);
}

}  // namespace
}  // namespace act
