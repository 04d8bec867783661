// Batch statistics that every backend's kernels are compared by.
#pragma once

#include <utility>
#include <vector>

#include "kernels/math/batch_statistics.h"
#include "tests/unit/kernel_testing.h"

namespace act {

// With the third result, which is left out where no node reads it.
inline OpCase BatchNormCase(TestTensor x, double momentum = 0.1) {
  const int64_t channels = x.dims.back();
  OpCase c{"BatchNormStats",
           {},
           {std::move(x), Random({channels}, 7), Random({channels}, 8)},
           {Empty({channels}), Empty({channels}), Empty({channels})},
           {1, 2},
           {}};
  c.attrs.Set("epsilon", 1e-5);
  c.attrs.Set("momentum", momentum);
  return c;
}

inline OpCase BatchNormMomentsCase(TestTensor x) {
  const int64_t channels = x.dims.back();
  return {"BatchNormMoments",
          {},
          {std::move(x)},
          {Empty({channels, kBatchMomentNumbers}, DType::kFloat64)},
          {},
          {}};
}

// What follows from the moments of 30 rows.
inline OpCase BatchNormFromMomentsCase(int64_t channels) {
  OpCase c = BatchNormCase(Random({1, channels}, 1));
  c.op = "BatchNormFromMoments";
  std::vector<double> moments;
  for (int64_t i = 0; i < channels; ++i) {
    const auto mean = static_cast<double>(i) - 1;
    moments.insert(moments.end(), {30, mean, 60, mean - 4, mean + 3});
  }
  c.inputs[0] = Of({channels, kBatchMomentNumbers}, moments, DType::kFloat64);
  return c;
}

inline constexpr double kBatchNormTolerance = 1e-6;

// Calls check(case, what).
template <class Check>
void ForBatchNormCases(Check check) {
  for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{1, 1},
                                                                            {2, 3},
                                                                            {5, 7, 7, 64},
                                                                            {4, 50, 50, 24},
                                                                            {3, 9, 9, 130},
                                                                            {40, 2048},
                                                                            {1, 5, 1, 1000},
                                                                            {100000, 1}})
    check(BatchNormCase(Random(dims, 1)), "rows of " + std::to_string(dims.back()));
  // The mean is 1000 deviations away from 0. E[x^2] - E[x]^2 in float32 would leave nothing
  // of the variance.
  check(BatchNormCase(Random({6, 30, 30, 33}, 1, 1000.0f)), "a far mean");
  TestTensor x = Random({64, 20, 20, 8}, 1);
  for (int64_t i = 0; i < x.elements(); ++i) x.as<float>()[i] += static_cast<float>(i / 3200) * 5 - 100;
  check(BatchNormCase(std::move(x)), "a mean that drifts over the batch");
  OpCase c = BatchNormCase(Random({4, 6, 6, 16}, 1));
  c.inputs[1] = c.inputs[2] = Absent();
  c.mutates = {};
  check(c, "without running statistics");
  c = BatchNormCase(Random({4, 6, 6, 16}, 1));
  c.outputs.pop_back();
  check(c, "without the largest");
}

}  // namespace act
