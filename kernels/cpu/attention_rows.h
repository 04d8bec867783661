// One query's row of scores in attention, forward and backward. Rows lie in scratch space and are
// padded: elements up to the next multiple of kRowPad may be written.
#pragma once

#include <cstdint>

#include "kernels/math/random.h"

namespace act {

inline constexpr int64_t kRowPad = 16;

struct ScoreRow {
  int64_t keys = 0;  // of the row; those before `first` and from `end` on are hidden
  int64_t first = 0, end = 0;
  const float* bias = nullptr;  // of key j: bias[j * bias_column]
  int64_t bias_column = 0;
  const uint8_t* mask = nullptr;  // key j is hidden where mask[j * mask_column] is 0
  int64_t mask_column = 0;
  float scale = 1;  // of the products that are the scores
  float softcap = 0;
};

// Whether the row sees any key.
bool SeesAKey(const ScoreRow& row);

// Replaces the scores of keys 0..keys-1, before scale, cap, bias and mask, by e^(score - max), or 0
// where hidden. Returns the factor that turns these into probabilities: NaN if a score is NaN, 0 if
// no key is visible. `slope`, if not null, receives the cap's derivative for the backward pass.
float Exponentials(const ScoreRow& row, float* scores, float* slope);

// kept[j] = 1 / (1 - probability) or 0, for elements first..first + keys - 1 of `sample`.
void DropoutRow(const RandomStream& random, float probability, int64_t sample, int64_t elements_per_sample,
                int64_t first, int64_t keys, float* kept);

// x *= y, element by element
void MultiplyRow(const float* y, int64_t count, float* x);
void ScaleRow(float factor, int64_t count, float* x);

// The gradient of one row. p = normalizer * exponentials; dp = kept * d_weights, where on entry
// d_weights = do v^T. On return:
//   exponentials   p * kept, to be multiplied by do for dv
//   d_weights      scale * slope * p (dp - sum(p dp)), to be multiplied by k for dq and by q for dk
struct GradientRow {
  int64_t keys = 0;
  float* exponentials = nullptr;
  float* d_weights = nullptr;
  float normalizer = 1, scale = 1;
  const float* kept = nullptr;   // null: all, with factor 1
  const float* slope = nullptr;  // null: 1
  bool no_gradient = false;      // of the scores: the row sees no key
  float* d_bias = nullptr;       // p (dp - sum(p dp)) is added to d_bias[j * d_bias_column]
  int64_t d_bias_column = 0;
};
void Backward(const GradientRow& row);

}  // namespace act
