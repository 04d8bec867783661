#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/movement_case.h"

namespace act {
namespace {

void ExpectSame(const OpCase& c) {
  SCOPED_TRACE(DimsText(c.inputs[0].dims) + " by " + DimsText(c.attrs.Ints("perm")));
  EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaTranspose, c, 0), 0);
}

TEST(CudaTranspose, EveryPermutationAndElementSize) {
  for (const OpCase& c : TransposeCases()) ExpectSame(c);
}

TEST(CudaTranspose, ShortAxesAndSeveralTiles) {
  for (const DType dtype : {DType::kFloat32, DType::kUint8, DType::kInt64, DType::kFloat16}) {
    ExpectSame(Transpose({3, 2500}, {1, 0}, dtype));
    ExpectSame(Transpose({2500, 2}, {1, 0}, dtype));
    ExpectSame(Transpose({70, 65}, {1, 0}, dtype));
    ExpectSame(Transpose({2, 2, 2, 2, 2, 2, 2, 2, 2}, {8, 7, 6, 5, 4, 3, 2, 1, 0}, dtype));
    ExpectSame(Transpose({3, 2, 4, 2, 3}, {4, 0, 3, 1, 2}, dtype));
  }
}

TEST(CudaTranspose, MoreAxesThanAKernelCountsAreRefused) {
  const OpCase c = Transpose(Ints(12, 2), {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, DType::kFloat32);
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaTranspose);
  EXPECT_TRUE(RunCuda(registry.For("Transpose")[0], c, 0).refused);
}

TEST(CudaTranspose, WarpsTouchFewSectorsMoreThanTheyMust) {
  const auto of = [](const Ints& in, const Ints& perm) {
    return SectorsOverIdeal(cuda::RegisterCudaTranspose, Transpose(in, perm, DType::kFloat32));
  };
  EXPECT_EQ(of({2, 64, 96}, {0, 2, 1}), 1);
  EXPECT_EQ(of({3, 4, 8, 64}, {2, 0, 1, 3}), 1) << "rows";
  // Rows of 225 begin between sectors: a warp's 32 floats lie in five instead of four.
  EXPECT_LE(of({2, 64, 15, 15}, {0, 2, 3, 1}), 1.25);
  // A tile along the long axis: whole pixels of an image with few channels are written.
  EXPECT_LE(of({2, 3, 32, 32}, {0, 2, 3, 1}), 1.1);
  EXPECT_LE(of({2, 32, 32, 3}, {0, 3, 1, 2}), 1.1);
}

}  // namespace
}  // namespace act
