#include "runtime/measure/gradient_statistics.h"

#include <cmath>
#include <functional>
#include <limits>

namespace act {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kNone = static_cast<size_t>(-1);

// The mean of |d_i|^2 over the R gradients, leaving out gradient `without`.
double MeanSquare(const BatchErrors& batch, size_t repeats, size_t without) {
  double sum = 0;
  for (size_t i = 0; i < repeats; ++i)
    if (i != without) sum += batch.products[i * repeats + i];
  return sum / static_cast<double>(repeats - (without == kNone ? 0 : 1));
}

// Mean of <d_i, d_j> over pairs i != j: its expectation is |E d|^2, since d_i and d_j are
// independent.
double MeanOverPairs(const BatchErrors& batch, size_t repeats, size_t without) {
  double sum = 0, pairs = 0;
  for (size_t i = 0; i < repeats; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (i == without || j == without) continue;
      sum += batch.products[i * repeats + j];
      ++pairs;
    }
  }
  return pairs > 0 ? sum / pairs : kNaN;
}

double Ratio(double numerator, double denominator) {
  return numerator == 0 && denominator == 0 ? 0 : numerator / denominator;
}

// Tukey's jackknife: the spread of the estimates that leave one of n observations out.
double Jackknife(size_t n, const std::function<double(size_t without)>& estimate) {
  if (n < 2) return kNaN;
  double mean = 0, squares = 0;
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) {
    values.push_back(estimate(i));
    mean += values.back() / static_cast<double>(n);
  }
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares * static_cast<double>(n - 1) / static_cast<double>(n));
}

using Statistic = double (*)(const BatchErrors&, size_t repeats, size_t without);

// The statistic summed over all batches but one, relative to the sum of |g|^2.
double Pooled(Statistic statistic, std::span<const BatchErrors> batches, size_t repeats,
              size_t without_batch) {
  double numerator = 0, denominator = 0;
  for (size_t m = 0; m < batches.size(); ++m) {
    if (m == without_batch) continue;
    numerator += statistic(batches[m], repeats, kNone);
    denominator += batches[m].gradient_square;
  }
  return Ratio(numerator, denominator);
}

double StandardError(Statistic statistic, std::span<const BatchErrors> batches, size_t repeats) {
  if (batches.size() > 1)
    return Jackknife(batches.size(),
                     [&](size_t without) { return Pooled(statistic, batches, repeats, without); });
  return Jackknife(repeats, [&](size_t without) {
    return Ratio(statistic(batches[0], repeats, without), batches[0].gradient_square);
  });
}

}  // namespace

GradientEstimate EstimateGradient(std::span<const BatchErrors> batches, size_t repeats) {
  return {.variance = Pooled(MeanSquare, batches, repeats, kNone),
          .variance_error = StandardError(MeanSquare, batches, repeats),
          .bias = Pooled(MeanOverPairs, batches, repeats, kNone),
          .bias_error = StandardError(MeanOverPairs, batches, repeats)};
}

}  // namespace act
