#include <limits>

#include "kernels/site/dereference.h"
#include "tests/unit/kernel_testing.h"
#include "tests/unit/topk_case.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

OpCase CumSum(const Ints& dims, int64_t axis, bool exclusive, bool reverse) {
  OpCase c{"CumSum", {}, {Random(dims, 1)}, {Empty(dims)}, {}, {}};
  c.attrs.Set("axis", axis);
  c.attrs.Set("exclusive", int64_t{exclusive});
  c.attrs.Set("reverse", int64_t{reverse});
  return c;
}

TEST(TopK, OrderOfEqualsAndOfNaN) {
  const TestTensor x = Floats({6}, {1, 3, NAN, 3, -INFINITY, 1});
  for (const KernelEntry& entry : CpuRegistry().For("TopK")) {
    const auto index = [&](const OpCase& c) {
      const TestTensor y = RunKernel(entry, c, 1, 0).tensors[0];
      return Ints(y.as<int64_t>(), y.as<int64_t>() + y.elements());
    };
    EXPECT_EQ(index(TopKCase(x, 6)), (Ints{2, 1, 3, 0, 5, 4})) << entry.name;
    EXPECT_EQ(index(TopKCase(x, 6, false)), (Ints{4, 0, 5, 1, 3, 2})) << entry.name;
    EXPECT_EQ(index(TopKCase(Floats({4}, {2, 7, 7, 2}), 1)), (Ints{1})) << entry.name;
    EXPECT_EQ(index(TopKCase(Floats({4}, {2, 7, 7, 2}), 1, true, true)), (Ints{2})) << entry.name;
    EXPECT_EQ(index(TopKCase(Floats({4}, {2, 7, 7, 2}), 1, false, true)), (Ints{3})) << entry.name;
  }
}

TEST(TopK, AgreesWithTheReference) {
  for (const Ints& dims : std::vector<Ints>{{1, 1}, {7, 33}, {3, 5, 130}, {400, 101}, {0, 5}})
    for (const int64_t k : {int64_t{0}, int64_t{1}, (dims.back() + 1) / 2, dims.back()})
      for (const bool largest : {false, true}) {
        TestTensor x = Random(dims, 1);
        for (int64_t i = 0; i < x.elements(); ++i)  // many equals
          x.as<float>()[i] = std::round(4 * x.as<float>()[i]);
        EXPECT_GT(CompareWithReference(TopKCase(std::move(x), k, largest), 0), 0);
      }
}

TEST(CumSum, AgreesWithTheReference) {
  for (const Ints& dims : std::vector<Ints>{{1}, {9, 5, 33}, {70, 40, 31}, {3, 1000, 2}, {4, 0}, {0, 4}})
    for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis)
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true})
          EXPECT_GT(CompareWithReference(CumSum(dims, axis, exclusive, reverse), 0), 0);
}

// Numbers that float32 does not tell apart, and the limits of the type.
TEST(TopK, TellsIntegersApart) {
  const int64_t gap = int64_t{1} << 53, least = std::numeric_limits<int64_t>::min();
  const TestTensor x = Labels({6}, {gap, gap + 1, least, gap + 1, -1, gap - 1});
  const TestTensor bytes = Of({4}, std::vector<uint8_t>{200, 3, 255, 200}, DType::kUint8);
  for (const KernelEntry& entry : CpuRegistry().For("TopK")) {
    const auto index = [&](const OpCase& c) {
      const TestTensor y = RunKernel(entry, c, 1, 0).tensors[0];
      return Ints(y.as<int64_t>(), y.as<int64_t>() + y.elements());
    };
    EXPECT_EQ(index(TopKCase(x, 6)), (Ints{1, 3, 0, 5, 4, 2})) << entry.name;
    EXPECT_EQ(index(TopKCase(x, 3, false)), (Ints{2, 4, 5})) << entry.name;
    EXPECT_EQ(index(TopKCase(x, 1, true, true)), (Ints{3})) << entry.name;
    EXPECT_EQ(index(TopKCase(bytes, 4)), (Ints{2, 0, 3, 1})) << entry.name;
  }
}

template <class T>
void ExpectCumSum(const KernelEntry& entry, DType dtype, const std::vector<T>& x, bool exclusive,
                  bool reverse, const std::vector<T>& want) {
  OpCase c = CumSum({static_cast<int64_t>(x.size())}, 0, exclusive, reverse);
  c.inputs = {Of({static_cast<int64_t>(x.size())}, x, dtype)};
  c.outputs = {Empty({static_cast<int64_t>(x.size())}, dtype)};
  const OpResult y = RunKernel(entry, c, 1, 0);
  ASSERT_FALSE(y.refused) << y.error;
  EXPECT_EQ(std::vector<T>(y.tensors[0].as<T>(), y.tensors[0].as<T>() + x.size()), want) << entry.name;
}

TEST(CumSum, OfIntegersWraps) {
  const int64_t gap = (int64_t{1} << 53) + 1, most = std::numeric_limits<int64_t>::max();
  for (const KernelEntry& entry : CpuRegistry().For("CumSum")) {
    ExpectCumSum<int64_t>(entry, DType::kInt64, {gap, 1, most}, false, false,
                          {gap, gap + 1, std::numeric_limits<int64_t>::min() + gap});
    ExpectCumSum<int64_t>(entry, DType::kInt64, {gap, 1, 5}, true, true, {6, 5, 0});
    ExpectCumSum<int8_t>(entry, DType::kInt8, {100, 100, -1}, false, false, {100, -56, -57});
    ExpectCumSum<uint8_t>(entry, DType::kUint8, {200, 100}, false, false, {200, 44});
    ExpectCumSum<int32_t>(entry, DType::kInt32, {3, -4, 5}, true, false, {0, 3, -1});
  }
}

TEST(Sequences, WhatDoesNotFitIsRefused) {
  std::vector<OpCase> wrong = {TopKCase(Random({3, 4}, 1), 5), CumSum({3, 4}, 2, false, false),
                               CumSum({3, 4}, -1, false, false), TopKCase(Random({3, 4}, 1), 2)};
  wrong.back().outputs = {Empty({2, 2}, DType::kInt64)};
  wrong.push_back(CumSum({3, 4}, 0, false, false));
  wrong.back().outputs = {Empty({3, 4}, DType::kInt32)};
  for (const OpCase& of : {TopKCase(Empty({3, 4}, DType::kBool), 2), CumSum({3, 4}, 0, false, false)}) {
    wrong.push_back(of);
    wrong.back().inputs = {Empty({3, 4}, DType::kBool)};
    if (of.op == "CumSum") wrong.back().outputs = {Empty({3, 4}, DType::kBool)};
  }
  for (const OpCase& c : wrong)
    for (const KernelEntry& entry : CpuRegistry().For(c.op))
      EXPECT_TRUE(RunKernel(entry, c, 1, 0).refused) << entry.name;
}

}  // namespace
}  // namespace act
