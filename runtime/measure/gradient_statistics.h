// Variance and bias of a noisy gradient, with standard errors: plain values in, plain values out.
// docs/gradient_variance.md has the formulas.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace act {

// Of one mini-batch: what is known of the errors d_i = g_i - g of R noisy gradients of it.
struct BatchErrors {
  double gradient_square = 0;    // |g|^2
  std::vector<double> products;  // <d_i, d_j>, R x R, row-major
};

struct GradientEstimate {
  double variance = 0;        // v = E|g_q - g|^2 / |g|^2
  double variance_error = 0;  // standard error; NaN where one number is all there is
  double bias = 0;            // b = |E g_q - g|^2 / |g|^2, without bias of its own: may be negative
  double bias_error = 0;
};

// Pooled over mini-batches: sums of the numerators over sums of |g|^2. Standard errors by the jackknife, over
// the mini-batches where there are several, else over the R gradients. Every batch has the same R >= 1; with
// R = 1 nothing is known of the bias (NaN). All zeros where all gradients are zero and exact.
GradientEstimate EstimateGradient(std::span<const BatchErrors> batches, size_t repeats);

}  // namespace act
