// Variance and bias of a noisy gradient, with standard errors: plain values in, plain values out.
// docs/gradient_variance.md has the formulas.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace act {

// For one mini-batch: products of the errors d_i = g_i - g of R noisy gradients.
struct BatchErrors {
  double gradient_square = 0;    // |g|^2
  std::vector<double> products;  // <d_i, d_j>, R x R, row-major
};

struct GradientEstimate {
  double variance = 0;        // v = E|g_q - g|^2 / |g|^2
  double variance_error = 0;  // standard error; NaN if there is only one number
  // b = |E g_q - g|^2 / |g|^2. The estimate is unbiased and may be negative.
  double bias = 0;
  double bias_error = 0;
};

// Pooled over mini-batches: sums of the numerators over sums of |g|^2. Standard errors are by the
// jackknife, over the mini-batches if there are several, else over the R gradients. Every batch has
// the same R >= 1. With R = 1 the bias is unknown (NaN). All zeros if all gradients are zero and
// exact.
GradientEstimate EstimateGradient(std::span<const BatchErrors> batches, size_t repeats);

}  // namespace act
