// The softmax of one row.
#pragma once

#include <cstdint>

namespace act {

// prob[c] = exp(logits[c]) / sum of exp(logits). Returns the log of that sum. count >= 1. A NaN in
// the row gives NaN.
double SoftmaxRow(const float* logits, int64_t count, float* prob);

// Its gradient: dx = y (dy - sum(dy y)), where y is the softmax.
void SoftmaxGradRow(const float* dy, const float* y, int64_t count, float* dx);

}  // namespace act
