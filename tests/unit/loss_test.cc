#include "kernels/site/dereference.h"
#include "tests/unit/loss_cases.h"

namespace act {
namespace {

TEST(SoftmaxCrossEntropy, ByHand) {
  OpCase c = LossCase({2, 2}, {0, 1}, false, "mean");
  c.inputs[0] = Floats({2, 2}, {0, 0, std::log(1.0f), std::log(3.0f)});
  const OpResult y = RunReference(c);
  EXPECT_NEAR(y.tensors[0].as<float>()[0], (std::log(2.0) - std::log(0.75)) / 2, 1e-7);
  EXPECT_NEAR(y.tensors[1].as<float>()[2], 0.25, 1e-7);
  c.inputs[2] = Floats({2}, {3, 1});
  EXPECT_NEAR(RunReference(c).tensors[0].as<float>()[0], (3 * std::log(2.0) - std::log(0.75)) / 4, 1e-7);
  c.attrs.Set("ignore_index", int64_t{0});
  EXPECT_NEAR(RunReference(c).tensors[0].as<float>()[0], -std::log(0.75), 1e-7);
}

TEST(SoftmaxCrossEntropy, FastKernelsAgree) {
  ForLossCases([](const OpCase& c, const std::string& what) {
    EXPECT_GT(CompareWithReference(c, c.inputs[0].elements() == 0 ? 0 : kLossTolerance), 0)
        << c.op << ", " << what;
  });
}

TEST(SoftmaxCrossEntropy, ResultsMayLieWhereOperandsDo) {
  int compared = 0;
  ForLossCases([&](const OpCase& apart, const std::string& what) {
    const std::optional<OpCase> in_place = LossInPlace(apart);
    if (!in_place) return;
    for (const KernelEntry& entry : CpuRegistry().For(apart.op))
      for (const int threads : {1, 5}) {
        const OpResult a = RunKernel(entry, apart, threads, 0), b = RunKernel(entry, *in_place, threads, 0);
        for (size_t i = 0; i < a.tensors.size(); ++i, ++compared)
          EXPECT_EQ(a.tensors[i].bytes, b.tensors[i].bytes) << entry.name << ", " << what << ", result " << i;
      }
  });
  EXPECT_GT(compared, 100);
}

TEST(SoftmaxCrossEntropy, GradientIsThatOfTheLoss) {
  for (const std::string reduction : {"mean", "sum"})
    for (const bool weighted : {false, true}) {
      OpCase c = LossCase({2, 3, 4}, {0, 3, 2, -100, 1, 1}, weighted, reduction);
      c.attrs.Set("ignore_index", int64_t{-100});
      // Central differences: step^2 / 6 times a third derivative below 1, and the rounding of the
      // loss divided by the step.
      CheckGradient(c, 0, LossGradCase(c, 1.0f), 1.0f / 64, 2e-4);
    }
}

TEST(SoftmaxCrossEntropy, ALabelOutOfRangeNamesItsSample) {
  const OpCase c = LossCase({5, 10}, {0, 1, 2, 12, 4}, false, "mean");
  const OpCase negative = LossCase({2, 3, 10}, {0, 1, 2, 3, -1, 5}, false, "mean");
  for (const KernelEntry& entry : CpuRegistry().For("SoftmaxCrossEntropy")) {
    EXPECT_EQ(RunKernel(entry, c, 1, 0).error, "label 12 at sample 3 of the batch is outside 0..9");
    EXPECT_EQ(RunKernel(entry, negative, 1, 0).error, "label -1 at sample 1 of the batch is outside 0..9");
  }
}

// A mean times what it was divided by is the sum.
TEST(SoftmaxCrossEntropy, AGivenDenominatorDivides) {
  OpCase c = LossCase({7, 4}, SomeLabels(7, 4), true, "sum");
  const float sum = RunReference(c).tensors[0].as<float>()[0];
  c.attrs.Set("reduction", std::string("mean"));
  c.inputs.push_back(Floats({}, {16}));
  EXPECT_EQ(RunReference(c).tensors[0].as<float>()[0], sum / 16);
}

TEST(LossDenominator, AddsTheWeightsOfTheLabelsThatCount) {
  OpCase c = DenominatorCase({2, 2}, {0, 2, 2, -7}, Absent(), 3);
  c.attrs.Set("ignore_index", int64_t{-7});
  EXPECT_EQ(RunReference(c).tensors[0].as<float>()[0], 3);
  c.inputs[1] = Floats({3}, {1, 50, 4});
  EXPECT_EQ(RunReference(c).tensors[0].as<float>()[0], 9);
  c.attrs.Set("ignore_index", int64_t{0});
  for (const KernelEntry& entry : CpuRegistry().For("LossDenominator"))
    EXPECT_EQ(RunKernel(entry, c, 1, 0).error,
              "label -7 at sample 1 of the batch is outside 0..2 and not 0, which is left out");
}

TEST(SoftmaxCrossEntropy, AllIgnoredIsNanAsInPyTorch) {
  OpCase c = LossCase({2, 5}, {1, 1}, false, "mean");
  c.attrs.Set("ignore_index", int64_t{1});
  EXPECT_TRUE(std::isnan(RunReference(c).tensors[0].as<float>()[0]));
}

TEST(CountCorrect, CountsTheFirstMaximum) {
  const OpCase c = CountCorrectCase();
  EXPECT_EQ(RunReference(c).tensors[0].as<float>()[0], 2);
  EXPECT_GT(CompareWithReference(c, 0), 0);
}

}  // namespace
}  // namespace act
