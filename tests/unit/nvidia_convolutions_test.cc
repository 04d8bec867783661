// Which engines of cuDNN and cuBLASLt libact_cuda.so chooses for a card that is only described.
#include <gtest/gtest.h>

#include "kernels/cuda/conv_parts.h"
#include "tests/unit/card_compiler.h"

namespace act::cuda {
namespace {

using act::testing::HasNvidia;
using act::testing::kGateCards;

class Nvidia : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasNvidia()) GTEST_SKIP() << "libact_cuda.so was not built: no CUDA toolkit";
  }
  static std::unique_ptr<Toolkit> Card(const std::string& name) { return llvm::cantFail(LoadCard(name)); }
};

struct Layer {
  int64_t in, size, out, kernel, stride;
};

// NHWC, batch `n`, pads that keep the size at stride 1.
ConvolutionProblem ProblemOf(const Layer& l, int64_t n, ConvolutionDirection direction, FloatMath math) {
  const int64_t pad = l.kernel / 2, size = (l.size + 2 * pad - l.kernel) / l.stride + 1;
  ConvolutionProblem p;
  p.direction = direction;
  p.x = {n, l.size, l.size, l.in};
  p.w = {l.out, l.kernel, l.kernel, l.in};
  p.y = {n, size, size, l.out};
  p.strides = {l.stride, l.stride};
  p.dilations = {1, 1};
  p.pads_begin = p.pads_end = {pad, pad};
  p.math = math;
  return p;
}

constexpr ConvolutionDirection kDirections[] = {ConvolutionDirection::kForward,
                                                ConvolutionDirection::kInputGradient,
                                                ConvolutionDirection::kWeightGradient};
constexpr Layer kResNet50[] = {{3, 224, 64, 7, 2},   {64, 56, 64, 1, 1},   {64, 56, 64, 3, 1},
                               {64, 56, 256, 1, 1},  {256, 56, 128, 1, 1}, {128, 56, 128, 3, 2},
                               {256, 56, 512, 1, 2}, {256, 14, 256, 3, 1}, {512, 7, 512, 3, 1},
                               {2048, 7, 512, 1, 1}};
constexpr int64_t kLimit = 64 << 20;

TEST_F(Nvidia, ResNet50sConvolutionsHaveEnginesWithinTheBound) {
  for (const char* card : kGateCards) {
    const auto toolkit = Card(card);
    for (const FloatMath math : {FloatMath::kStrict, FloatMath::kTf32})
      for (const ConvolutionDirection direction : kDirections)
        for (const Layer& layer : kResNet50) {
          // Nobody needs the gradient of the images.
          if (layer.in == 3 && direction == ConvolutionDirection::kInputGradient) continue;
          EngineCache engines(toolkit->convolutions());
          std::string why;
          const auto parts = ChooseParts(engines, ProblemOf(layer, 256, direction, math), kLimit, &why);
          ASSERT_FALSE(parts.empty()) << card << ": " << why;
          EXPECT_LE(WorkspaceBytes(parts), kLimit);
          for (const ConvPart& part : parts) {
            const std::string engine = part.call->engine();
            EXPECT_TRUE(engine.starts_with("cudnn engine ")) << engine;
            EXPECT_EQ(engine.find("not deterministic"), std::string::npos) << engine;
            EXPECT_EQ(part.call->uses_tensor_cores(), math == FloatMath::kTf32)
                << card << ": " << engine << " for " << layer.in << " channels, direction "
                << static_cast<int>(direction);
          }
        }
  }
}

TEST_F(Nvidia, ResNet50sConvolutionsInBFloat16HaveEnginesWithinTheBound) {
  for (const char* card : kGateCards) {
    const auto toolkit = Card(card);
    for (const Layer& layer : kResNet50) {
      std::string why;
      const auto expect = [&](const ConvolutionProblem& problem, int64_t limit, bool tensor_cores) {
        EngineCache engines(toolkit->convolutions());
        const auto parts = ChooseParts(engines, problem, limit, &why);
        ASSERT_FALSE(parts.empty()) << card << ": " << why;
        EXPECT_LE(WorkspaceBytes(parts), limit);
        for (const ConvPart& part : parts) {
          const std::string engine = part.call->engine();
          EXPECT_EQ(engine.find("not deterministic"), std::string::npos) << engine;
          if (tensor_cores) {
            EXPECT_TRUE(part.call->uses_tensor_cores()) << card << ": " << engine;
          }
        }
      };
      for (const ConvolutionDirection direction :
           {ConvolutionDirection::kForward, ConvolutionDirection::kInputGradient})
        if (layer.in != 3 || direction == ConvolutionDirection::kForward)
          expect(ProblemOf(layer, 256, direction, FloatMath::kBFloat16), kLimit, true);
      // Of widened operands, a part of the samples at a time, in a quarter of the bound.
      ConvolutionProblem part = ProblemOf(layer, 16, ConvolutionDirection::kWeightGradient, FloatMath::kTf32);
      for (const bool accumulates : {false, true}) {
        part.accumulates = accumulates;
        expect(part, kLimit / 4, false);
      }
    }
  }
}

// In little workspace, cuDNN's first engine for this gradient adds by atomics.
TEST_F(Nvidia, EnginesAreDeterministic) {
  std::string why;
  const auto call = Card("a100")->convolutions().Choose(
      ProblemOf({256, 14, 256, 3, 1}, 256, ConvolutionDirection::kWeightGradient, FloatMath::kStrict),
      1 << 20, &why);
  ASSERT_TRUE(call) << why;
  EXPECT_EQ(call->engine().find("not deterministic"), std::string::npos) << call->engine();
}

// The gradients of such a layer on an A100 would need more workspace than the limit, so these are not asked
// for.
TEST_F(Nvidia, Float32UsesNoTensorCoresAndTf32Does) {
  for (const char* card : kGateCards) {
    const auto toolkit = Card(card);
    for (const FloatMath math : {FloatMath::kStrict, FloatMath::kTf32}) {
      std::string why;
      const auto call = toolkit->convolutions().Choose(
          ProblemOf({256, 14, 256, 3, 1}, 256, ConvolutionDirection::kForward, math), kLimit, &why);
      ASSERT_TRUE(call) << why;
      EXPECT_EQ(call->engine().find("tensor cores") != std::string::npos, math == FloatMath::kTf32)
          << card << ": " << call->engine();
    }
  }
}

TEST_F(Nvidia, AChoiceIsTheSameEachTime) {
  const ConvolutionProblem problem =
      ProblemOf({64, 56, 64, 3, 1}, 32, ConvolutionDirection::kWeightGradient, FloatMath::kTf32);
  std::string why;
  const auto one = Card("h200")->convolutions().Choose(problem, kLimit, &why);
  const auto toolkit = Card("h200");
  const auto other = toolkit->convolutions().Choose(problem, kLimit, &why);
  ASSERT_TRUE(one && other) << why;
  EXPECT_EQ(one->engine(), other->engine());
}

TEST_F(Nvidia, ConvolutionsOfOneToThreeAxesGroupsDilationsAndUnequalPads) {
  const auto toolkit = Card("h200");
  ConvolutionProblem one;
  one.x = {4, 20, 6}, one.w = {8, 3, 6}, one.y = {4, 20, 8};
  one.strides = one.dilations = one.pads_begin = one.pads_end = {1};
  ConvolutionProblem three;
  three.x = {2, 5, 6, 7, 4}, three.w = {8, 3, 3, 3, 4}, three.y = {2, 5, 6, 7, 8};
  three.strides = three.dilations = three.pads_begin = three.pads_end = {1, 1, 1};
  ConvolutionProblem groups;
  groups.x = {4, 8, 8, 16}, groups.w = {32, 3, 3, 4}, groups.y = {4, 8, 8, 32}, groups.groups = 4;
  groups.strides = groups.dilations = groups.pads_begin = groups.pads_end = {1, 1};
  ConvolutionProblem dilated = groups;
  dilated.dilations = dilated.pads_begin = dilated.pads_end = {2, 2};
  ConvolutionProblem unequal = groups;
  unequal.pads_begin = {0, 0}, unequal.pads_end = {2, 2};
  for (ConvolutionProblem problem : {one, three, groups, dilated, unequal})
    for (const ConvolutionDirection direction : kDirections) {
      problem.direction = direction;
      std::string why;
      const auto call = toolkit->convolutions().Choose(problem, kLimit, &why);
      if (direction == ConvolutionDirection::kWeightGradient && problem.pads_begin != problem.pads_end) {
        EXPECT_FALSE(call);  // computed wrongly
        EXPECT_NE(why.find("is wrong where pads differ"), std::string::npos) << why;
        continue;
      }
      EXPECT_TRUE(call) << problem.x.size() - 2 << " axes, direction " << static_cast<int>(direction) << ": "
                        << why;
    }
}

TEST_F(Nvidia, SaysWhyThereIsNoEngine) {
  const auto toolkit = Card("h200");
  ConvolutionProblem problem =
      ProblemOf({64, 56, 64, 3, 1}, 32, ConvolutionDirection::kForward, FloatMath::kStrict);
  std::string why;
  EXPECT_FALSE(toolkit->convolutions().Choose(problem, -1, &why));
  EXPECT_NE(why.find("no deterministic engine within -1 bytes"), std::string::npos) << why;
  EXPECT_NE(why.find("need more workspace, the least 0"), std::string::npos) << why;
  problem.y[1] = 7;  // no output of this convolution
  EXPECT_FALSE(toolkit->convolutions().Choose(problem, kLimit, &why));
  EXPECT_NE(why.find("cuDNN has no such convolution: cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM"),
            std::string::npos)
      << why;
}

TEST_F(Nvidia, ADescribedCardEnqueuesNothing) {
  const auto toolkit = Card("h200");
  std::string why;
  const auto convolution = toolkit->convolutions().Choose(
      ProblemOf({64, 56, 64, 3, 1}, 32, ConvolutionDirection::kForward, FloatMath::kTf32), kLimit, &why);
  const auto product = toolkit->products().Choose({.m = 2, .n = 3, .k = 4}, 1024, &why);
  ASSERT_TRUE(convolution && product) << why;
  EXPECT_EQ(product->workspace_bytes(), 1024);
  std::byte* const operands[4] = {};
  EXPECT_NE(convolution->Enqueue(nullptr, operands, nullptr), "");
  EXPECT_NE(product->Enqueue(nullptr, operands, nullptr), "");
}

}  // namespace
}  // namespace act::cuda
