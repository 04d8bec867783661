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

TEST(CudaWorkspace, ADepthwiseWeightGradientHasItsPartialSums) {
  Planned dw("ConvGradWeight", {{n, 7, 7, 32}, {n, 7, 7, 32}}, {{32, 1, 3, 3}});
  const int64_t operands = (2 * 7 * 7 * 32 + 288) * 4, transposed = 1280;  // 1152 -> 1280
  EXPECT_EQ(dw.Bytes(1), transposed + 2 * operands);
  EXPECT_EQ(dw.With("group", int64_t{32}).Bytes(1), transposed + 2 * operands + 512 * 288 * 16);
}

TEST(CudaWorkspace, AProductHasWhatCublasRecommends) {
  const Planned small("MatMul", {{n, 100}, {100, 10}}, {{n, 10}});
  EXPECT_EQ(small.Bytes(3), 2 * (300 + 1000 + 30) * 4);
  EXPECT_EQ(small.Bytes(1 << 20), 32 * kMiB);
  EXPECT_EQ(small.Bytes(1 << 20, 4 * kMiB), 4 * kMiB);
}

TEST(CudaWorkspace, AttentionHoldsTheScoresOfAsManyHeadsAsFit) {
  const Dims heads = {n, 8, 128, 64};
  const int64_t head = 128 * 128 * 4;
  const Planned attention("Attention", {heads, heads, heads}, {heads});
  EXPECT_EQ(attention.Bytes(1), 8 * head);
  EXPECT_EQ(attention.Bytes(16), 128 * head);
  EXPECT_EQ(attention.Bytes(1000), 64 * kMiB);
  // Of time-major heads, [N,T,H,D].
  const Dims stored = {n, 128, 8, 64};
  Planned moved("Attention", {stored, stored, stored}, {stored});
  for (const char* perm : {"perm_q", "perm_k", "perm_v", "perm_o"})
    moved.With(perm, std::vector<int64_t>{0, 2, 1, 3});
  EXPECT_EQ(moved.Bytes(16), attention.Bytes(16));
  // So long that no head fits: 16 queries at a time.
  const Dims few = {n, 1, 100, 64}, many = {n, 1, Dim(10 * kMiB), 64};
  EXPECT_EQ(Planned("Attention", {few, many, many}, {few}).Bytes(1), 16 * 10 * kMiB * 4);
}

TEST(CudaWorkspace, TheGradientOfAttentionHoldsProbabilitiesTheirGradientsAndPartsOfTheBias) {
  const Dims heads = {n, 8, 128, 64};
  const int64_t head = 128 * 128 * 4;
  Planned grad("AttentionGrad", {heads, heads, heads, heads}, {heads, heads, heads});
  EXPECT_EQ(grad.Bytes(2), 2 * 16 * head);
  EXPECT_EQ(grad.Bytes(1000), 128 * kMiB);
  Planned biased("AttentionGrad", {heads, heads, heads, heads, {128, 128}},
                 {heads, heads, heads, {128, 128}});
  EXPECT_EQ(biased.Bytes(2), 2 * 16 * head + 32 * head);  // 2^19 / 128^2 parts
  EXPECT_EQ(grad.With("softcap", 30.0).Bytes(2), 3 * 16 * head);
}

TEST(CudaWorkspace, StatisticsAndReductionsHaveTheirParts) {
  const Planned statistics("BatchNormStats", {{n, 7, 7, 2048}}, {{2048}, {2048}});
  EXPECT_EQ(statistics.Bytes(1), 256 * 2048 * 16);
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "IntegerReduce"}) {
    EXPECT_EQ(Planned(op, {{n, 10}}, {{10}}).Bytes(1), 512 * 10 * 16) << op;
    EXPECT_EQ(Planned(op, {{n, 10}}, {{n, 1}}).Bytes(1), 0) << op;
    EXPECT_EQ(Planned(op, {{n, Dim(kMiB)}}, {{Dim(kMiB)}}).Bytes(1), 0) << op << " in one part";
  }
  EXPECT_EQ(Planned("SoftmaxCrossEntropy", {{n, 10}, {n}}, {{}, {n, 10}}).Bytes(1), 512 * 16);
  EXPECT_EQ(Planned("CountCorrect", {{n, 10}, {n}}, {{}}).Bytes(1), 512 * 16);
}

TEST(CudaWorkspace, ALoopHasItsColumnSums) {
  Planned loop("Fused", {{n, 8}}, {{8}, {8}});
  loop.node.program.space = {n, 8};
  loop.node.program.inputs = {{}};
  loop.node.program.outputs = {{OutputKind::kSum, 0, {}, 0}, {OutputKind::kSum, 0, {}, 0}};
  EXPECT_EQ(loop.Bytes(1), 2 * (512 * 8 * 8 + 256));
}

TEST(CudaWorkspace, AScatterSortsItsIndices) {
  const Planned scatter("Scatter", {{n, 100, 8}, {n, 100}}, {{5000, 8}});
  EXPECT_EQ(scatter.Bytes(3), 300 * 16 + 256 * 1024);
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
