#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/matmul_case.h"

namespace act {
namespace {

// Up to 1100 products in float32: 2^-24 * sqrt(terms), relative to the largest output.
constexpr double kTolerance = 2e-6;

int Compare(const OpCase& c) { return CompareCudaWithReference(cuda::RegisterCudaMatMul, c, kTolerance); }

TEST(CudaMatMul, TheLibraryAndOurTilesAgreeWithTheReference) {
  for (const auto& [name, c] : MatMulCases()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(Compare(c), 2);
  }
  for (const OpCase& c : BiasCases()) EXPECT_EQ(Compare(c), 2);
  // Several tiles each way, and sums longer than one of a tile.
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const std::vector<int64_t> a{ta ? 1100 : 70, ta ? 70 : 1100}, b{tb ? 130 : 1100, tb ? 1100 : 130};
      EXPECT_EQ(Compare(MatMul(a, b, {70, 130}, ta, tb)), 2);
    }
}

TEST(CudaMatMul, TilesGoOnFromASum) {
  for (const OpCase& c : SumsOverSamples()) EXPECT_EQ(Compare(c), 2);
}

TEST(CudaMatMul, EmptyExtents) {
  EXPECT_EQ(Compare(MatMul({0, 4}, {4, 3}, {0, 3}, false, false)), 1);
  OpCase c = MatMul({2, 0}, {0, 3}, {2, 3}, false, false);
  EXPECT_EQ(Compare(c), 1);
  c.inputs.push_back(Random({3}, 3));
  EXPECT_EQ(Compare(c), 1);
}

}  // namespace
}  // namespace act
