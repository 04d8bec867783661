// Convolutions by the library a part of the samples at a time, on a fake card whose engines need a workspace for
// each sample.
#include "kernels/cuda/conv_parts.h"

#include <cstdlib>

#include "kernels/cuda/registry.h"
#include "tests/unit/conv_case.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

constexpr int64_t kSampleBytes = 1000;

// As in cuda_conv_test.cc.
constexpr double kTolerance = 2e-6;

// Before the card is opened.
[[maybe_unused]] const int kSet =
    setenv("ACT_FAKE_SAMPLE_WORKSPACE", std::to_string(kSampleBytes).c_str(), 1);

// Runs the library's kernel in workspace for its weights and for so many samples, and returns its description.
std::string CompareWith(const OpCase& c, int64_t samples, int64_t weights_bytes) {
  const int64_t workspace = weights_bytes + samples * kSampleBytes;
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaConv);
  for (const KernelEntry& entry : registry.For(c.op)) {
    if (!entry.name.starts_with("cudnn.")) continue;
    const CudaResult result = RunCuda(entry, c, workspace);
    EXPECT_EQ(result.error, "");
    if (!result.error.empty()) return "";
    EXPECT_LE(Distance(result.tensors[0], RunReference(c).tensors[0]), kTolerance);
    return result.description;
  }
  return "";
}

class CudaConvParts : public ::testing::Test {
  void SetUp() override {
    if (IsRealCard()) GTEST_SKIP() << "a real card's engines need what they need";
  }
};

// 69 samples: four parts of 18, of which the last has 15, or eight of nine, of which it has six.
TEST_F(CudaConvParts, ComputeWhatOneCallDoes) {
  for (const int64_t stride : {1, 2}) {
    const ConvCase conv{{69, 7, 6, 4}, 6, {3, 3}, {stride, stride}, {1, 1}, {1, 1, 1, 1}};
    const int64_t weights = (6 * 4 * 9 * 4 + 255) / 256 * 256;
    for (const OpCase& c : {conv.Forward(true), conv.GradInput(), conv.GradWeight()}) {
      SCOPED_TRACE(c.op);
      EXPECT_NE(CompareWith(c, 18, weights).find("in 4 parts of the samples"), std::string::npos);
      EXPECT_NE(CompareWith(c, 9, weights).find("in 8 parts of the samples"), std::string::npos);
      EXPECT_EQ(CompareWith(c, 69, weights).find("parts"), std::string::npos);
    }
  }
}

TEST_F(CudaConvParts, OfFewSamplesAreNotTaken) {
  cuda::ConvolutionProblem p;
  p.x = {37, 4, 4, 3}, p.w = {5, 3, 3, 3}, p.y = {37, 4, 4, 5};
  p.strides = p.dilations = p.pads_begin = p.pads_end = {1, 1};
  cuda::EngineCache engines(TheTestCard().toolkit().convolutions());
  std::string why;
  EXPECT_TRUE(cuda::ChooseParts(engines, p, 4 * kSampleBytes, &why).empty());
  EXPECT_NE(why.find("needs 37000 bytes of workspace, of at most 4000"), std::string::npos) << why;
}

}  // namespace
}  // namespace act
