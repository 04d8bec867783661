// The fake card finds the faults for which it is made, and runs what is right.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

const char kScale[] = R"(
#include "kernels/cuda/source/device.h"
struct Parameters { const float* x; float* y; int64_t count; };
ACT_KERNEL(scale, 256, Parameters, p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < p.count) Store(p.y + i, 2 * Load(p.x + i));
}
)";

struct Vectors {
  const float* x;
  float* y;
  int64_t count;
};

TEST(FakeCuda, RunsAKernel) {
  FakeCard& card = TheFakeCard();
  const cuda::CompiledKernel* kernel = card.cache().Request({"scale", kScale});
  ASSERT_EQ(card.cache().CompileAll(), "");
  std::vector<float> x(1000), y(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const DevicePointer a = card.Allocate(4000), b = card.Allocate(4000);
  card.Upload(a, x.data(), 4000);
  const Vectors p = {a.as<const float>(), b.as<float>(), 1000};
  EXPECT_EQ(cuda::Launch(card.context(), *kernel, 4, 256, p), "");
  EXPECT_EQ(card.Wait(), "");
  card.Download(y.data(), b, 4000);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 2 * x[i]) << i;
}

}  // namespace
}  // namespace act
