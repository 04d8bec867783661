#include "kernels/site/dereference.h"
#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

OpCase Loss(const Ints& logits, const std::vector<int64_t>& labels, bool weighted,
            const std::string& reduction) {
  const Ints rows(logits.begin(), logits.end() - 1);
  OpCase c{"SoftmaxCrossEntropy",      {}, {Random(logits, 1), Labels(rows, labels)},
           {Empty({}), Empty(logits)}, {}, {}};
  c.attrs.Set("reduction", reduction);
  c.inputs.push_back(Absent());
  if (weighted) {
    c.inputs[2] = Random({logits.back()}, 2);
    for (int64_t i = 0; i < logits.back(); ++i)
      c.inputs[2].as<float>()[i] = 0.5f + std::fabs(c.inputs[2].as<float>()[i]);
  }
  return c;
}

OpCase Grad(const OpCase& forward, float dloss) {
  const OpResult y = RunReference(forward);
  return {"SoftmaxCrossEntropyGrad",
          forward.attrs,
          {Floats({}, {dloss}), y.tensors[1], forward.inputs[1], forward.inputs[2]},
          {Empty(forward.inputs[0].dims)},
          {},
          {}};
}

std::vector<int64_t> SomeLabels(int64_t count, int64_t classes) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(i * 7 % classes);
  return labels;
}

TEST(SoftmaxCrossEntropy, ByHand) {
  OpCase c = Loss({2, 2}, {0, 1}, false, "mean");
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
  // float32 exponentials to 1 unit in the last place, and sums in double.
  constexpr double kTolerance = 5e-7;
  for (const std::string reduction : {"mean", "sum"})
    for (const bool weighted : {false, true})
      for (const Ints& dims :
           {Ints{5, 10}, Ints{1, 1000}, Ints{3, 4, 5, 21}, Ints{150, 3}, Ints{2, 1}, Ints{130, 300}}) {
        OpCase c = Loss(dims, SomeLabels(ElementCount(dims) / dims.back(), dims.back()), weighted, reduction);
        EXPECT_GT(CompareWithReference(c, kTolerance), 0);
        EXPECT_GT(CompareWithReference(Grad(c, 1.5f), kTolerance), 0);
        if (dims.back() < 4) continue;
        c.attrs.Set("ignore_index", int64_t{0});
        EXPECT_GT(CompareWithReference(c, kTolerance), 0);
        EXPECT_GT(CompareWithReference(Grad(c, 1.5f), kTolerance), 0);
      }
}

TEST(SoftmaxCrossEntropy, HugeMaskedAndUndefinedLogits) {
  for (const float odd : {1e30f, -1e30f, -INFINITY, INFINITY, NAN}) {
    OpCase c = Loss({3, 20}, {1, 2, 3}, false, "mean");
    c.inputs[0].as<float>()[20 + 5] = odd;
    EXPECT_GT(CompareWithReference(c, 5e-7), 0) << odd;
  }
}

TEST(SoftmaxCrossEntropy, GradientIsThatOfTheLoss) {
  for (const std::string reduction : {"mean", "sum"})
    for (const bool weighted : {false, true}) {
      OpCase c = Loss({2, 3, 4}, {0, 3, 2, -100, 1, 1}, weighted, reduction);
      c.attrs.Set("ignore_index", int64_t{-100});
      // Central differences: step^2 / 6 times a third derivative below 1, and the rounding of the
      // loss divided by the step.
      CheckGradient(c, 0, Grad(c, 1.0f), 1.0f / 64, 2e-4);
    }
}

TEST(SoftmaxCrossEntropy, ALabelOutOfRangeNamesItsSample) {
  const OpCase c = Loss({5, 10}, {0, 1, 2, 12, 4}, false, "mean");
  const OpCase negative = Loss({2, 3, 10}, {0, 1, 2, 3, -1, 5}, false, "mean");
  for (const KernelEntry& entry : CpuRegistry().For("SoftmaxCrossEntropy")) {
    EXPECT_EQ(RunKernel(entry, c, 1, 0).error, "label 12 at sample 3 is outside 0..9");
    EXPECT_EQ(RunKernel(entry, negative, 1, 0).error, "label -1 at sample 1 is outside 0..9");
  }
}

TEST(SoftmaxCrossEntropy, AllIgnoredIsNanAsInPyTorch) {
  OpCase c = Loss({2, 5}, {1, 1}, false, "mean");
  c.attrs.Set("ignore_index", int64_t{1});
  EXPECT_TRUE(std::isnan(RunReference(c).tensors[0].as<float>()[0]));
  EXPECT_GT(CompareWithReference(c, 5e-7), 0);
  EXPECT_GT(CompareWithReference(Loss({0, 5}, {}, false, "sum"), 0), 0);
}

TEST(CountCorrect, CountsTheFirstMaximum) {
  OpCase c{
      "CountCorrect", {}, {Floats({4, 3}, {1, 2, 2, 5, 1, 1, 0, 0, 9, 1, 1, 1}), Labels({4}, {1, 0, 0, -1})},
      {Empty({})},    {}, {}};
  c.attrs.Set("ignore_index", int64_t{-1});
  EXPECT_EQ(RunReference(c).tensors[0].as<float>()[0], 2);
  EXPECT_GT(CompareWithReference(c, 0), 0);
}

}  // namespace
}  // namespace act
