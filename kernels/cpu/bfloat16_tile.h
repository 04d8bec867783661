// bfloat16 elements to floats and back, a vector at a time. The results are those of
// kernels/math/convert.h, bit for bit, on every instruction set.
#pragma once

#include <cstddef>

#include "kernels/math/convert.h"

namespace act {

// to[i] = from[i]
void WidenTile(size_t n, const BFloat16* from, float* to);
// to[i] = from[i], rounded to nearest even. A NaN becomes 0x7FC0.
void RoundTile(size_t n, const float* from, BFloat16* to);

}  // namespace act
