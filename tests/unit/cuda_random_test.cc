// Random on a card: the reference's bits.
#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

OpCase Draw(const std::string& distribution, std::vector<int64_t> dims) {
  OpCase c{"Random", {}, {}, {Empty(std::move(dims))}, {}, {}};
  c.attrs.Set("distribution", distribution);
  c.attrs.Set("stream", int64_t{7});
  c.attrs.Set("scale", .3);
  c.attrs.Set("offset", -1.7);
  c.state.seed = 0x123456789abcdef0;
  c.state.step = 41;
  return c;
}

TEST(CudaRandom, HasTheBitsOfTheReference) {
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaRandom);
  for (const char* distribution : {"uniform", "normal"})
    for (const int64_t count : {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 40'001}) {
      const OpCase c = Draw(distribution, {count});
      const CudaResult y = RunCuda(registry.For("Random").front(), c, 0);
      ASSERT_FALSE(y.refused) << y.error;
      EXPECT_EQ(y.error, "");
      EXPECT_EQ(y.tensors[0].bytes, RunReference(c).tensors[0].bytes) << distribution << " " << count;
    }
}

TEST(CudaRandom, RefusesWhatTheReferenceRefuses) {
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaRandom);
  EXPECT_TRUE(RunCuda(registry.For("Random").front(), Draw("cauchy", {3}), 0).refused);
}

TEST(CudaRandom, AWarpWritesWholeSectors) {
  for (const char* distribution : {"uniform", "normal"})
    EXPECT_LT(SectorsOverIdeal(cuda::RegisterCudaRandom, Draw(distribution, {4096})), 1.05) << distribution;
}

}  // namespace
}  // namespace act
