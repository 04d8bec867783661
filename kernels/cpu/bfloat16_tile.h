// bfloat16 elements to floats and back, a vector at a time. The results are those of
// kernels/math/convert.h, bit for bit, on every instruction set.
#pragma once

#include <cstddef>

#include "kernels/cpu/fused_tile.h"
#include "kernels/math/convert.h"

namespace act {

// Elements by which a walk over tiles asks for bfloat16 ahead: two tiles, as many bytes as one of floats.
inline constexpr size_t kBFloat16Ahead = 2 * kTileElements;

// `ahead`: elements by which bfloat16 memory is asked for before its turn. The requests stand between
// the vectors, and not in one run: only so does the arithmetic go on while they are under way.

// to[i] = from[i]
void WidenTile(size_t n, const BFloat16* from, float* to, size_t ahead = 0);
// to[i] = from[i], rounded to nearest even. A NaN becomes 0x7FC0.
void RoundTile(size_t n, const float* from, BFloat16* to, size_t ahead = 0);

}  // namespace act
