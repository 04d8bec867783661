#include "tests/unit/conv_case.h"
#include "tests/unit/each_target.h"

namespace act {
namespace {

// oneDNN adds up to C * K products in float32, in another order than the reference, which adds in
// double. Relative to the largest output this is about 2^-24 * sqrt(terms).
constexpr double kTolerance = 2e-6;

TEST(Conv, ByHand) {
  // x = 1 2 3 4, w = 1 10, stride 1, pad 1 at the end: y = 1*1+2*10, 2+30, 3+40, 4.
  ConvCase conv{{1, 4, 1}, 1, {2}, {1}, {1}, {0, 1}};
  OpCase c = conv.Forward(true);
  c.inputs = {Floats({1, 4, 1}, {1, 2, 3, 4}), Floats({1, 1, 2}, {1, 10}), Floats({1}, {0.5})};
  const OpResult y = RunReference(c);
  const float expected[] = {21.5f, 32.5f, 43.5f, 4.5f};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y.tensors[0].as<float>()[i], expected[i]);
}

TEST(Conv, OneDnnAgreesWithTheReference) {
  for (const auto& [name, conv] : ConvCases()) {
    SCOPED_TRACE(name);
    EXPECT_GT(CompareWithReference(conv.Forward(false), kTolerance), 0) << "no fast kernel took it";
    EXPECT_GT(CompareWithReference(conv.Forward(true), kTolerance), 0) << "no fast kernel took it";
    EXPECT_GT(CompareWithReference(conv.GradInput(), kTolerance), 0) << "no fast kernel took it";
    EXPECT_GT(CompareWithReference(conv.GradWeight(), kTolerance), 0) << "no fast kernel took it";
  }
}

TEST(Conv, DepthwiseWeightGradientsAgreeOnEveryInstructionSet) {
  for (const auto& [name, conv] : ConvCases()) {
    if (conv.group == 1) continue;
    SCOPED_TRACE(name);
    ForEachTarget([&, &conv = conv] { CompareWithReference(conv.GradWeight(), kTolerance); });
  }
}

TEST(Conv, GradientsAreThoseOfTheForwardPass) {
  for (const auto& [name, conv] : ConvCases()) {
    if (ElementCount(conv.in) > 600 || ElementCount(conv.WeightDims()) > 600) continue;
    SCOPED_TRACE(name);
    // Linear in x and in w: the only error of central differences is the rounding of y, 2^-24 * |y|
    // / step per term.
    CheckGradient(conv.Forward(false), 0, conv.GradInput(), 1.0f, 1e-4);
    CheckGradient(conv.Forward(false), 1, conv.GradWeight(), 1.0f, 1e-4);
  }
}

TEST(Conv, AnEmptyBatchHasAZeroWeightGradient) {
  const ConvCase conv{{0, 6, 6, 8}, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
  CompareWithReference(conv.Forward(true), 0);
  CompareWithReference(conv.GradInput(), 0);
  const OpResult dw = RunReference(conv.GradWeight());
  for (int64_t i = 0; i < dw.tensors[0].elements(); ++i) EXPECT_EQ(dw.tensors[0].as<float>()[i], 0);
}

TEST(Conv, MalformedAttributesAreRefusedByEveryKernel) {
  const ConvCase good{{1, 6, 6, 8}, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
  std::vector<OpCase> bad(5, good.Forward(false));
  bad[0].attrs.Set("strides", std::vector<int64_t>{0, 1});
  bad[1].attrs.Set("pads", std::vector<int64_t>{1, 1});
  bad[2].attrs.Set("dilations", std::vector<int64_t>{int64_t{1} << 62, 1});
  bad[3].attrs.Set("group", int64_t{3});
  bad[4].inputs[1] = Random({4, 8, 3}, 1);
  for (const OpCase& c : bad)
    for (const KernelEntry& entry : CpuRegistry().For("Conv"))
      EXPECT_TRUE(RunKernel(entry, c, 1, 1 << 20).refused) << entry.name;
}

// A fault of timing shows in some of many runs, as that of oneDNN's gradient of a strided pointwise weight of few
// channels did (conv_primitive.cc).
TEST(ConvRepeated, GradientsOfWeightsAreRightInEveryRun) {
  for (const int64_t channels : {1, 3, 5, 8, 12}) {
    const OpCase c = ConvCase{{3, 8, 8, channels}, 16, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}}.GradWeight();
    const OpResult truth = RunReference(c);
    for (const KernelEntry& entry : CpuRegistry().For(c.op))
      for (int run = 0; run < 50; ++run) {
        const OpResult result = RunKernel(entry, c, 2, PlannedWorkspace(c));
        if (result.refused) break;
        ASSERT_LE(Distance(result.tensors[0], truth.tensors[0]), 1e-5)
            << entry.name << ", " << channels << " channels";
      }
  }
}

}  // namespace
}  // namespace act
