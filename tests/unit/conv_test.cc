#include "tests/unit/conv_case.h"
#include "tests/unit/each_target.h"

namespace act {
namespace {

// oneDNN adds up to C * K products in float32, in another order than the reference, which adds in
// double. Relative to the largest output this is about 2^-24 * sqrt(terms).
constexpr double kTolerance = 2e-6;

const std::vector<std::pair<std::string, ConvCase>>& Cases() {
  static const std::vector<std::pair<std::string, ConvCase>> cases = {
      {"plain 3x3", {{2, 9, 7, 16}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"pointwise", {{2, 5, 5, 48}, 24, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"strided pointwise", {{2, 8, 8, 32}, 64, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}}},
      {"stem", {{2, 23, 23, 3}, 16, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}}},
      {"strided 3x3", {{3, 8, 8, 16}, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}}},
      {"odd channels", {{1, 6, 5, 7}, 5, {3, 2}, {1, 2}, {1, 1}, {1, 0, 1, 1}}},
      {"asymmetric pads", {{2, 7, 7, 8}, 8, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}}},
      {"dilated", {{2, 11, 11, 16}, 16, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}}},
      {"grouped", {{2, 6, 6, 24}, 12, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 3}},
      {"depthwise", {{2, 9, 9, 20}, 20, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 20}},
      {"strided depthwise", {{2, 9, 9, 32}, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 32}},
      {"depthwise 7x7", {{3, 10, 11, 40}, 40, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}, 40}},
      {"dilated depthwise", {{2, 9, 12, 18}, 18, {3, 2}, {1, 2}, {2, 3}, {2, 1, 2, 0}, 18}},
      {"wide depthwise", {{2, 4, 13, 5}, 5, {2, 9}, {3, 1}, {1, 1}, {0, 8, 1, 0}, 5}},
      {"depthwise of one axis", {{3, 17, 33}, 33, {4}, {2}, {1}, {1, 2}, 33}},
      {"depthwise of two", {{1, 6, 6, 4}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 4}},
      {"one axis", {{2, 19, 12}, 20, {5}, {2}, {1}, {2, 1}}},
      {"three axes", {{2, 5, 6, 7, 4}, 6, {3, 1, 3}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1, 1, 0, 1}}},
      {"single pixel", {{4, 1, 1, 10}, 3, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
  };
  return cases;
}

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
  for (const auto& [name, conv] : Cases()) {
    SCOPED_TRACE(name);
    EXPECT_GT(CompareWithReference(conv.Forward(false), kTolerance), 0) << "no fast kernel took it";
    EXPECT_GT(CompareWithReference(conv.Forward(true), kTolerance), 0) << "no fast kernel took it";
    EXPECT_GT(CompareWithReference(conv.GradInput(), kTolerance), 0) << "no fast kernel took it";
    EXPECT_GT(CompareWithReference(conv.GradWeight(), kTolerance), 0) << "no fast kernel took it";
  }
}

TEST(Conv, DepthwiseWeightGradientsAgreeOnEveryInstructionSet) {
  for (const auto& [name, conv] : Cases()) {
    if (conv.group == 1) continue;
    SCOPED_TRACE(name);
    ForEachTarget([&, &conv = conv] { CompareWithReference(conv.GradWeight(), kTolerance); });
  }
}

TEST(Conv, GradientsAreThoseOfTheForwardPass) {
  for (const auto& [name, conv] : Cases()) {
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

}  // namespace
}  // namespace act
