#include "tests/unit/pool_case.h"

namespace act {
namespace {

TEST(MaxPool, FirstOfEqualsWinsAndNanWins) {
  const PoolCase pool{{1, 6, 1}, {3}, {3}, {0, 0}};
  OpCase c = pool.Max(DType::kUint8);
  c.inputs = {Floats({1, 6, 1}, {2, 7, 7, -1, NAN, 5})};
  const OpResult y = RunReference(c);
  EXPECT_EQ(y.tensors[0].as<float>()[0], 7);
  EXPECT_EQ(y.tensors[1].as<uint8_t>()[0], 1);
  EXPECT_TRUE(std::isnan(y.tensors[0].as<float>()[1]));
  EXPECT_EQ(y.tensors[1].as<uint8_t>()[1], 1);
  CompareWithReference(c, 0);
}

TEST(MaxPool, PaddingNeverWins) {
  const PoolCase pool{{1, 2, 1}, {2}, {1}, {1, 1}};
  OpCase c = pool.Max(DType::kInt32);
  c.inputs = {Floats({1, 2, 1}, {-5, -6})};
  const OpResult y = RunReference(c);
  const float values[] = {-5, -5, -6};
  const int32_t index[] = {1, 0, 0};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(y.tensors[0].as<float>()[i], values[i]);
    EXPECT_EQ(y.tensors[1].as<int32_t>()[i], index[i]);
  }
}

TEST(MaxPool, FastKernelsAgreeToTheBit) {
  for (const PoolCase& pool : PoolCases())
    for (const DType dtype : {DType::kUint8, DType::kInt32}) {
      OpCase c = pool.Max(dtype);
      EXPECT_GT(CompareWithReference(c, 0), 0);
      OpCase without = c;
      without.outputs[1] = Absent();
      EXPECT_GT(CompareWithReference(without, 0), 0);
      EXPECT_GT(CompareWithReference(pool.MaxGrad(dtype), 0), 0);
    }
}

TEST(MaxPool, GradientIsThatOfTheForwardPass) {
  for (const PoolCase& pool : PoolCases()) {
    if (ElementCount(pool.in) > 900) continue;
    const OpCase c = pool.Max(DType::kUint8);
    const OpCase grad = pool.MaxGrad(DType::kUint8);
    // Piecewise linear: a step of 2^-13 is smaller than the gaps between these inputs. The error is
    // their rounding, 2^-22 / 2^-13.
    CheckGradient(c, 0, grad, 1.0f / 8192, 4e-3);
  }
}

TEST(MaxPool, AnIndexThatCannotHoldTheWindowIsRefused) {
  const PoolCase pool{{1, 17, 17, 1}, {17, 17}, {1, 1}, {0, 0, 0, 0}};
  for (const KernelEntry& entry : CpuRegistry().For("MaxPool"))
    EXPECT_TRUE(RunKernel(entry, pool.Max(DType::kUint8), 1, 0).refused) << entry.name;
}

TEST(AveragePool, CountsByHand) {
  // One axis of 3, window 2, stride 2, pads 1 and 1, ceil mode: windows {pad, 1}, {2,
  // 3}, {pad, beyond}.
  PoolCase pool{{1, 3, 1}, {2}, {2}, {1, 1}, true};
  OpCase c = pool.Average(true);
  c.inputs = {Floats({1, 3, 1}, {4, 6, 8})};
  ASSERT_EQ(pool.OutDims()[1], 3);
  const float with_pad[] = {2, 7, 0}, without_pad[] = {4, 7, 0};
  const OpResult included = RunReference(c);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(included.tensors[0].as<float>()[i], with_pad[i]);
  c.attrs.Set("count_include_pad", int64_t{0});
  const OpResult excluded = RunReference(c);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(excluded.tensors[0].as<float>()[i], without_pad[i]);
  // Ceil mode without padding: the last window reads {3, beyond}, and only elements inside count.
  pool = {{1, 3, 1}, {2}, {2}, {0, 0}, true};
  c = pool.Average(true);
  c.inputs = {Floats({1, 3, 1}, {4, 6, 8})};
  EXPECT_EQ(RunReference(c).tensors[0].as<float>()[1], 8);
}

TEST(AveragePool, FastKernelsAgree) {
  for (const PoolCase& pool : PoolCases())
    for (const bool include_pad : {false, true}) {
      // Up to 49 float32 additions in sequence.
      EXPECT_GT(CompareWithReference(pool.Average(include_pad), 1e-6), 0);
      EXPECT_GT(CompareWithReference(pool.AverageGrad(include_pad), 1e-6), 0);
    }
}

TEST(AveragePool, GradientIsThatOfTheForwardPass) {
  for (const PoolCase& pool : PoolCases())
    for (const bool include_pad : {false, true}) {
      if (ElementCount(pool.in) > 900) continue;
      // Linear.
      CheckGradient(pool.Average(include_pad), 0, pool.AverageGrad(include_pad), 1.0f, 1e-5);
    }
}

}  // namespace
}  // namespace act
