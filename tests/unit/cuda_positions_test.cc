// Range, FlatIndex and NonZero on a card: the reference's bits.
#include "kernels/cuda/registry.h"
#include "kernels/site/strided.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/gather_cases.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

int Compare(const OpCase& c) { return CompareCudaWithReference(cuda::RegisterCudaPositions, c, 0); }

OpCase RangeCase(int64_t start, int64_t step, int64_t count) {
  OpCase c{"Range", {}, {}, {Empty({count}, DType::kInt64)}, {}, {}};
  c.attrs.Set("start", Ints{start, 0, 0});
  c.attrs.Set("step", step);
  return c;
}

TEST(CudaRange, HasTheBitsOfTheReference) {
  for (const int64_t count : {0, 1, 255, 1000})
    for (const int64_t step : {1, -3, 0, 1 << 30}) EXPECT_EQ(Compare(RangeCase(5, step, count)), 1);
  EXPECT_EQ(Compare(RangeCase(kTooLarge - 2, -7, 3)), 1);
}

TEST(CudaRange, RefusesNumbersThatSaturate) {
  EXPECT_EQ(Compare(RangeCase(kTooLarge - 2, 1, 3)), 0);
  EXPECT_EQ(Compare(RangeCase(0, -kTooLarge, 3)), 0);
}

OpCase FlatIndexCase(const Ints& extents, const Ints& dims, DType dtype = DType::kInt64) {
  Ints tuple_dims = dims, numbers;
  tuple_dims.push_back(static_cast<int64_t>(extents.size()));
  OpCase c{"FlatIndex", {}, {Empty(tuple_dims, dtype)}, {Empty(dims, DType::kInt64)}, {}, {}};
  for (const int64_t extent : extents) numbers.insert(numbers.end(), {extent, 0, 0});
  c.attrs.Set("extents", numbers);
  std::mt19937 engine(1);
  for (size_t i = 0; i < static_cast<size_t>(c.inputs[0].elements()); ++i) {
    const int64_t extent = extents[i % extents.size()],
                  at = static_cast<int64_t>(engine()) % (2 * extent) - extent;
    if (dtype == DType::kInt64)
      c.inputs[0].as<int64_t>()[i] = at;
    else
      c.inputs[0].as<int32_t>()[i] = static_cast<int32_t>(at);
  }
  return c;
}

TEST(CudaFlatIndex, HasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kInt64, DType::kInt32}) {
    EXPECT_EQ(Compare(FlatIndexCase({5}, {7}, dtype)), 1);
    EXPECT_EQ(Compare(FlatIndexCase({4, 1, 9}, {3, 200}, dtype)), 1);
    EXPECT_EQ(Compare(FlatIndexCase({70'000, 70'000, 3}, {300}, dtype)), 1);
    EXPECT_EQ(Compare(FlatIndexCase({2, 3, 2, 3, 2, 3, 2, 3}, {9}, dtype)), 1);
    EXPECT_EQ(Compare(FlatIndexCase({4, 5}, {0}, dtype)), 1);
    EXPECT_EQ(Compare(FlatIndexCase({4, 5}, {}, dtype)), 1);
  }
  EXPECT_EQ(Compare(FlatIndexCase({2, 2, 2, 2, 2, 2, 2, 2, 2}, {9})), 0);  // more axes than device code has
}

TEST(CudaFlatIndex, AnIndexOutsideIsReportedWithItsAxis) {
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaPositions);
  for (const int64_t wrong : {int64_t{5}, int64_t{-6}, INT64_MIN, INT64_MAX}) {
    OpCase c = FlatIndexCase({4, 5}, {3});
    c.inputs[0] = Labels({3, 2}, {0, 1, 2, wrong, -4, -5});
    const CudaResult y = RunCuda(registry.For("FlatIndex").front(), c, 0);
    EXPECT_EQ(y.error, "");
    EXPECT_EQ(y.fault.kind, static_cast<uint32_t>(DataFault::kIndex));
    EXPECT_EQ(y.fault.value, wrong);
    EXPECT_EQ(TheTestCard().context().fault_sites.Place(y.fault.node),
              "node '' (FlatIndex), an axis of extent 5");
    EXPECT_EQ(Ints(y.tensors[0].as<int64_t>(), y.tensors[0].as<int64_t>() + 3), (Ints{1, 10, 0}));
    c.inputs[0] = Labels({3, 2}, {0, 1, 2, 4, -4, -5});
    EXPECT_EQ(RunCuda(registry.For("FlatIndex").front(), c, 0).fault.kind, 0u);
  }
}

// About one of `every` elements is not 0.
OpCase NonZeroCase(const Ints& dims, DType dtype, unsigned every) {
  OpCase c{"NonZero", {}, {Empty(dims, dtype)}, {}, {}, {}};
  TestTensor& x = c.inputs[0];
  c.outputs = {Empty({static_cast<int64_t>(dims.size()), x.elements()}, DType::kInt64),
               Empty({x.elements()}, DType::kBool)};
  std::mt19937 engine(every + 1);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const bool set = every > 0 && engine() % every == 0;
    if (dtype == DType::kFloat32)
      x.as<float>()[i] = set ? (i % 2 ? NAN : -1e-40f) : i % 2 ? -0.f : 0.f;
    else if (dtype == DType::kFloat64)
      x.as<double>()[i] = set ? 1e-300 : -0.;
    else if (dtype == DType::kInt64)
      x.as<int64_t>()[i] = set ? int64_t{1} << 40 : 0;
    else
      x.as<uint8_t>()[i] = set;
  }
  return c;
}

TEST(CudaNonZero, HasTheBitsOfTheReference) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kUint8, DType::kBool})
    for (const unsigned every : {0, 1, 3, 50})
      for (const Ints& dims : std::vector<Ints>{{3, 4, 5}, {}, {1}, {7, 0}, {9000}})
        EXPECT_EQ(Compare(NonZeroCase(dims, dtype, every)), 1) << DimsText(dims) << " " << every;
  for (const unsigned every : {0, 1, 2, 5000})
    EXPECT_EQ(Compare(NonZeroCase({3, 2048, 2}, DType::kFloat32, every)), 1) << every;
  EXPECT_EQ(Compare(NonZeroCase({1, 2, 1, 2, 1, 2, 1, 2}, DType::kBool, 2)), 1);
}

TEST(CudaNonZero, WithoutASpaceForItsCountsItRefuses) {
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaPositions);
  EXPECT_TRUE(RunCuda(registry.For("NonZero").front(), NonZeroCase({5}, DType::kBool, 2), 4).refused);
}

}  // namespace
}  // namespace act
