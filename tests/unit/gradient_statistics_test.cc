// Estimates of variance and bias, compared with errors whose variance and bias are known.
#include "runtime/measure/gradient_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace act {
namespace {

constexpr size_t kElements = 40;
constexpr double kBias = .3, kNoise = .5;  // of each element

// R errors of one mini-batch. The gradient is `scale` in each element, and errors scale with it.
BatchErrors DrawErrors(std::mt19937& engine, size_t repeats, double scale, double bias) {
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> errors(repeats, std::vector<double>(kElements));
  for (auto& error : errors)
    for (double& e : error) e = scale * (bias + kNoise * normal(engine));
  BatchErrors batch{.gradient_square = kElements * scale * scale,
                    .products = std::vector<double>(repeats * repeats)};
  for (size_t i = 0; i < repeats; ++i)
    for (size_t j = 0; j < repeats; ++j)
      for (size_t k = 0; k < kElements; ++k) batch.products[i * repeats + j] += errors[i][k] * errors[j][k];
  return batch;
}

struct Spread {
  double mean = 0, deviation = 0;
};

Spread SpreadOf(const std::vector<double>& values) {
  Spread spread;
  for (const double v : values) spread.mean += v / static_cast<double>(values.size());
  for (const double v : values) spread.deviation += (v - spread.mean) * (v - spread.mean);
  spread.deviation = std::sqrt(spread.deviation / static_cast<double>(values.size() - 1));
  return spread;
}

// Over many experiments, the estimates are right on average, and their standard errors are the
// spread that they really have.
void CheckEstimates(size_t batches, size_t repeats, double bias) {
  constexpr int kExperiments = 2000;
  std::mt19937 engine(1);
  std::vector<double> variances, variance_errors, biases, bias_errors;
  for (int n = 0; n < kExperiments; ++n) {
    std::vector<BatchErrors> drawn;
    for (size_t m = 0; m < batches; ++m) drawn.push_back(DrawErrors(engine, repeats, 3, bias));
    const GradientEstimate estimate = EstimateGradient(drawn, repeats);
    variances.push_back(estimate.variance);
    variance_errors.push_back(estimate.variance_error * estimate.variance_error);
    biases.push_back(estimate.bias);
    bias_errors.push_back(estimate.bias_error * estimate.bias_error);
  }
  const Spread v = SpreadOf(variances), b = SpreadOf(biases);
  // 5 standard errors of the mean of 2000 experiments.
  const double standard_errors = 5 / std::sqrt(static_cast<double>(kExperiments));
  EXPECT_NEAR(v.mean, kNoise * kNoise + bias * bias, standard_errors * v.deviation);
  EXPECT_NEAR(b.mean, bias * bias, standard_errors * b.deviation);
  // The jackknife of a mean is exact. That of pairs overestimates by a term of order 1/n
  // (Efron and Stein, The jackknife estimate of variance, 1981: never under on average). 15 %:
  // the spread of 2000 experiments' own deviation is 2 %, that of its heavy-tailed estimate
  // several times as much.
  EXPECT_NEAR(std::sqrt(SpreadOf(variance_errors).mean) / v.deviation, 1, .15);
  const double ratio = std::sqrt(SpreadOf(bias_errors).mean) / b.deviation;
  EXPECT_GT(ratio, .85);
  EXPECT_LT(ratio, 1.6);
}

TEST(GradientStatistics, SeveralMiniBatchesWithBias) { CheckEstimates(8, 4, kBias); }
TEST(GradientStatistics, SeveralMiniBatchesWithoutBias) { CheckEstimates(8, 4, 0); }
TEST(GradientStatistics, OneMiniBatchWithBias) { CheckEstimates(1, 12, kBias); }
TEST(GradientStatistics, OneMiniBatchWithoutBias) { CheckEstimates(1, 12, 0); }

TEST(GradientStatistics, MiniBatchesCountByTheSquareOfTheirGradient) {
  const std::vector<BatchErrors> batches{{.gradient_square = 1, .products = {.5}},
                                         {.gradient_square = 9, .products = {.5}}};
  EXPECT_DOUBLE_EQ(EstimateGradient(batches, 1).variance, .1);
}

TEST(GradientStatistics, WhatOneGradientCannotTellIsNotANumber) {
  const std::vector<BatchErrors> batches{{.gradient_square = 1, .products = {.5}}};
  const GradientEstimate estimate = EstimateGradient(batches, 1);
  EXPECT_EQ(estimate.variance, .5);
  EXPECT_TRUE(std::isnan(estimate.variance_error));
  EXPECT_TRUE(std::isnan(estimate.bias));
}

TEST(GradientStatistics, AnExactGradientOfZeroHasNoVariance) {
  const std::vector<BatchErrors> batches{{.gradient_square = 0, .products = {0, 0, 0, 0}}};
  EXPECT_EQ(EstimateGradient(batches, 2).variance, 0);
  EXPECT_EQ(EstimateGradient(batches, 2).bias, 0);
}

}  // namespace
}  // namespace act
