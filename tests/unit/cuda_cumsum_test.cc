// CumSum on a card against the reference.
#include <numeric>

#include "kernels/cuda/registry.h"
#include "kernels/site/strided.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

// Both add in double and round once. Where sums along a long axis are added in another order, they differ by some
// 2^-53 of what was added, which now and then turns a rounding to float32, of 2^-24 of the sum.
constexpr double kTolerance = 1.2e-7;

OpCase CumSumCase(const Ints& dims, int64_t axis, DType dtype, bool exclusive, bool reverse) {
  OpCase c{"CumSum", {}, {Empty(dims, dtype)}, {Empty(dims, dtype)}, {}, {}};
  if (dtype == DType::kFloat32) {
    c.inputs = {Random(dims, 1)};
  } else {
    std::mt19937 engine(2);
    for (std::byte& byte : c.inputs[0].bytes) byte = static_cast<std::byte>(engine());
  }
  c.attrs.Set("axis", axis);
  c.attrs.Set("exclusive", int64_t{exclusive});
  c.attrs.Set("reverse", int64_t{reverse});
  return c;
}

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(cuda::RegisterCudaCumSum, c, tolerance);
}

TEST(CudaCumSum, AgreesWithTheReferenceAlongEveryAxis) {
  const std::vector<Ints> shapes = {{1},     {9, 5, 33},  {3, 1000, 2}, {4, 0},      {0, 4},    {5, 64},
                                    {5, 65}, {2, 70, 45}, {4099},       {2, 300, 7}, {70, 3, 1}};
  for (const Ints& dims : shapes)
    for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis)
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true})
          for (const DType dtype : {DType::kFloat32, DType::kInt64})
            EXPECT_EQ(Compare(CumSumCase(dims, axis, dtype, exclusive, reverse),
                              dtype == DType::kInt64 ? 0 : kTolerance),
                      1)
                << DimsText(dims) << ", axis " << axis;
}

TEST(CudaCumSum, OfAShortAxisHasTheBitsOfTheReference) {
  EXPECT_EQ(Compare(CumSumCase({50, 64}, 1, DType::kFloat32, false, false), 0), 1);
  EXPECT_EQ(Compare(CumSumCase({33, 50}, 0, DType::kFloat32, true, true), 0), 1);
}

TEST(CudaCumSum, IntegersOfEveryTypeWrap) {
  for (const DType dtype : {DType::kInt32, DType::kInt16, DType::kInt8, DType::kUint64, DType::kUint32,
                            DType::kUint16, DType::kUint8})
    for (const int64_t extent : {40, 3000})
      EXPECT_EQ(Compare(CumSumCase({2, extent}, 1, dtype, false, extent == 40), 0), 1) << ToString(dtype);
}

TEST(CudaCumSum, WhatIsUndefinedStaysBehindItself) {
  for (const float odd : {NAN, INFINITY, -INFINITY})
    for (const bool reverse : {false, true}) {
      OpCase c = CumSumCase({2, 500, 3}, 1, DType::kFloat32, true, reverse);
      c.inputs[0].as<float>()[250 * 3 + 1] = odd;
      EXPECT_EQ(Compare(c, kTolerance), 1) << odd;
    }
}

TEST(CudaCumSum, SumsOfNumbersThatCancelKeepTheirDigits) {
  OpCase c = CumSumCase({4000}, 0, DType::kFloat32, false, false);
  for (int64_t i = 0; i < 4000; ++i) c.inputs[0].as<float>()[i] += i % 2 ? -1e5f : 1e5f;
  EXPECT_EQ(Compare(c, kTolerance), 1);
}

TEST(CudaCumSum, AResultMayLieWhereTheOperandDoes) {
  for (const int64_t extent : {40, 5000}) {
    OpCase c = CumSumCase({extent, 3}, 0, DType::kInt64, true, true);
    c.in_place = {{0, 0}};
    const KernelRegistry registry = CudaKernels(cuda::RegisterCudaCumSum);
    EXPECT_EQ(RunCuda(registry.For("CumSum").front(), c, 0).tensors[0].bytes,
              RunReference(c).tensors[0].bytes);
  }
}

TEST(CudaCumSum, WarpsReadNeighbours) {
  for (const int64_t axis : {0, 1})
    EXPECT_LT(
        SectorsOverIdeal(cuda::RegisterCudaCumSum, CumSumCase({512, 512}, axis, DType::kInt64, false, false)),
        axis == 0 ? 1.05 : 4.05)  // a thread has 8 neighbours, so its warp touches each sector 4 times
        << axis;
}

}  // namespace
}  // namespace act
