// Conversions of whole arrays between float32 and bfloat16, by all threads of a team.
#pragma once

#include <cstdint>

#include "kernels/math/convert.h"

namespace act {

// to[i] = from[i], i < n.
void Widen(const BFloat16* from, int64_t n, float* to, int threads);
// to[i] = from[i], rounded to nearest even.
void RoundToBFloat16(const float* from, int64_t n, BFloat16* to, int threads);
// Each x[i] becomes the nearest bfloat16.
void RoundInPlace(float* x, int64_t n, int threads);

}  // namespace act
