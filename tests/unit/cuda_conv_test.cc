#include "kernels/cuda/registry.h"
#include "tests/unit/conv_case.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

// Sums of up to some thousand products in float32, in parts: 2^-24 * sqrt(terms), relative to the largest
// output.
constexpr double kTolerance = 2e-6;

void AllKernels(KernelRegistry& registry, const cuda::CudaContext& context) {
  cuda::RegisterCudaDepthwise(registry, context);
  cuda::RegisterCudaConv(registry, context);
}

int Compare(const OpCase& c) { return CompareCudaWithReference(AllKernels, c, kTolerance); }

std::vector<std::pair<std::string, ConvCase>> Cases() {
  auto cases = ConvCases();
  const std::vector<std::pair<std::string, ConvCase>> more = {
      {"one element", {{1, 1, 1, 1}, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"dilated groups", {{2, 9, 8, 12}, 6, {3, 2}, {2, 1}, {2, 3}, {2, 0, 1, 3}, 3}},
      {"many channels", {{1, 5, 5, 70}, 66, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"parts of unequal length", {{2, 17, 29, 4}, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"part of the windows", {{2, 7, 7, 4}, 4, {3, 3}, {2, 2}, {1, 1}, {1, 1, -1, -1}}},
      {"depthwise 5x5", {{2, 9, 7, 36}, 36, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}, 36}},
      {"strided depthwise 5x5", {{2, 9, 11, 8}, 8, {5, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}, 8}},
      {"depthwise of three axes",
       {{2, 4, 5, 6, 8}, 8, {3, 2, 3}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1, 1, 1, 1}, 8}},
      {"depthwise with much padding", {{1, 3, 3, 4}, 4, {3, 3}, {1, 1}, {1, 1}, {3, 3, 4, 4}, 4}},
      {"depthwise that cuts off", {{2, 6, 6, 4}, 4, {3, 3}, {1, 1}, {1, 1}, {-1, -1, 0, -1}, 4}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

// One of the libraries or a depthwise kernel takes each case, and our tiles do. Libraries refuse
// negative pads, and a real one more than that.
template <class F>
void ExpectAgree(const F& operator_of) {
  for (const auto& [name, conv] : Cases()) {
    SCOPED_TRACE(name);
    EXPECT_GE(Compare(operator_of(conv)), name == "depthwise that cuts off" || IsRealCard() ? 1 : 2);
  }
}

TEST(CudaConv, ForwardAgrees) {
  ExpectAgree([](const ConvCase& conv) { return conv.Forward(false); });
}
TEST(CudaConv, ForwardWithBiasAgrees) {
  ExpectAgree([](const ConvCase& conv) { return conv.Forward(true); });
}
TEST(CudaConv, GradInputAgrees) {
  ExpectAgree([](const ConvCase& conv) { return conv.GradInput(); });
}
TEST(CudaConv, GradWeightAgrees) {
  ExpectAgree([](const ConvCase& conv) { return conv.GradWeight(); });
}

TEST(CudaConv, AnEmptyBatchHasAZeroWeightGradient) {
  for (const int64_t group : {1, 8}) {
    const ConvCase conv{{0, 6, 6, 8}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, group};
    EXPECT_GE(Compare(conv.Forward(true)), 1);
    EXPECT_GE(Compare(conv.GradInput()), 1);
    EXPECT_GE(Compare(conv.GradWeight()), 1);
  }
}

}  // namespace
}  // namespace act
