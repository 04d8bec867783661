// TopK on a card: the reference's places, by selection and by a sort.
#include <limits>

#include "kernels/cuda/registry.h"
#include "kernels/site/strided.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/topk_case.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

// Many equals, zeros of both signs, NaN and infinities.
TestTensor Odd(const Ints& dims) {
  TestTensor x = Random(dims, 1);
  const float odd[] = {NAN, -NAN, INFINITY, -INFINITY, 0.f, -0.f, 1e-42f, -1e-42f, 3e38f, -3e38f};
  for (int64_t i = 0; i < x.elements(); ++i) {
    float& number = x.as<float>()[i];
    number = i % 7 == 3 ? odd[static_cast<size_t>(i / 7) % std::size(odd)] : std::round(4 * number);
  }
  return x;
}

// Every bit of every type, with the sign at either.
TestTensor Integers(const Ints& dims, DType dtype) {
  TestTensor x = Empty(dims, dtype);
  std::mt19937_64 engine(3);
  const auto size = static_cast<size_t>(ByteSize(dtype));
  for (size_t i = 0; i < static_cast<size_t>(x.elements()); ++i) {
    const uint64_t shifted = engine() >> engine() % 64, number = i % 2 ? ~shifted : shifted;
    std::memcpy(x.bytes.data() + i * size, &number, size);
  }
  return x;
}

int Compare(const OpCase& c) { return CompareCudaWithReference(cuda::RegisterCudaTopK, c, 0); }

// By either way; a kernel without scratch space selects.
void ExpectThePlaces(const TestTensor& x, int64_t k) {
  for (const bool largest : {false, true})
    for (const bool last : {false, true})
      EXPECT_EQ(Compare(TopKCase(x, k, largest, last)), 1)
          << DimsText(x.dims) << " of " << ToString(x.dtype) << ", the " << (last ? "last " : "first ") << k
          << (largest ? " largest" : " smallest");
}

TEST(CudaTopK, FindsThePlacesOfTheReference) {
  for (const Ints& dims : std::vector<Ints>{{1, 1}, {7, 33}, {3, 5, 130}, {90, 8}, {2, 1100}, {5}})
    for (const int64_t k : {int64_t{1}, int64_t{2}, std::min<int64_t>((dims.back() + 1) / 2, 40)})
      if (k <= dims.back()) ExpectThePlaces(Odd(dims), k);
  ExpectThePlaces(Odd({7, 33}), 33);
  ExpectThePlaces(Odd({5, 64}), 64);
}

TEST(CudaTopK, SortsWhereManyAreWanted) {
  for (const Ints& dims : std::vector<Ints>{{1, 257}, {3, 300}, {2, 2, 700}})
    for (const int64_t k : {int64_t{17}, dims.back()}) {
      const OpCase c = TopKCase(Odd(dims), k);
      const KernelRegistry registry = CudaKernels(cuda::RegisterCudaTopK);
      EXPECT_EQ(RunCuda(registry.For("TopK").front(), c, PlannedWorkspace(c, CudaTarget())).description,
                "sorts");
      ExpectThePlaces(c.inputs[0], k);
    }
  EXPECT_EQ(Compare(TopKCase(Odd({300, 258}), 17)), 1);  // keys of rows have two digits
}

TEST(CudaTopK, OfIntegersOfEveryType) {
  for (const DType dtype : {DType::kInt64, DType::kInt32, DType::kInt16, DType::kInt8, DType::kUint64,
                            DType::kUint32, DType::kUint16, DType::kUint8}) {
    EXPECT_EQ(Compare(TopKCase(Integers({3, 60}, dtype), 20)), 1) << ToString(dtype);
    EXPECT_EQ(Compare(TopKCase(Integers({3, 60}, dtype), 20, false, true)), 1) << ToString(dtype);
    EXPECT_EQ(Compare(TopKCase(Integers({2, 300}, dtype), 30)), 1) << ToString(dtype);
    EXPECT_EQ(Compare(TopKCase(Integers({2, 300}, dtype), 30, false, true)), 1) << ToString(dtype);
  }
}

TEST(CudaTopK, OfNothing) {
  EXPECT_EQ(Compare(TopKCase(Random({3, 5}, 1), 0)), 1);
  EXPECT_EQ(Compare(TopKCase(Random({0, 5}, 1), 2)), 1);
  EXPECT_EQ(Compare(TopKCase(Random({3, 0}, 1), 0)), 1);
}

TEST(CudaTopK, RefusesWhatTheReferenceRefuses) {
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaTopK);
  EXPECT_TRUE(RunCuda(registry.For("TopK").front(), TopKCase(Random({3, 4}, 1), 5), 0).refused);
}

TEST(CudaTopK, AWarpReadsNeighbours) {
  EXPECT_LT(SectorsOverIdeal(cuda::RegisterCudaTopK, TopKCase(Random({64, 128}, 1), 2)), 1.3);
}

}  // namespace
}  // namespace act
