// K levels that are denser where a normal distribution is denser. They lie in a range [0, K - 1],
// in units of the distance between even levels.
//
// Encode rounds a position between two levels up with probability f, its fraction of their distance
// d, as for even levels. Decode gives level q + B (1/2 - u). That is unbiased for every B.
// Its variance
//     E[d^2 f (1 - f)] - B E[d f (1 - f)] + B^2 / 12
// is least for B = 6 E[d f (1 - f)]. The tables hold the levels, in 1/64 of the range, and B, in
// 1/16 of the even distance, that make this least of all. They were found by dynamic programming
// over the levels for each B, and the test repeats that.
//   one side   a half normal cut at 2.8 deviations, the expected largest of 128 (kSign's sides,
//              kZero)
//   two sides  a normal cut at 2.9 deviations on both sides (kUniform)
// Their variance is about .8 of that of even levels.
#pragma once

#include <cstdint>

#include "kernels/math/codec_spec.h"

namespace act {

inline constexpr int kFittedGrid = 64;
struct FittedShape {
  uint8_t at[kMostFittedLevels];  // 1/64 of the range
  uint8_t dither;                 // B in 1/16 of an even step
};

// For 2..16 levels.
inline constexpr FittedShape kOneSided[kMostFittedLevels - 1] = {
    {{0, 64}, 15},
    {{0, 26, 64}, 14},
    {{0, 17, 36, 64}, 14},
    {{0, 12, 25, 41, 64}, 14},
    {{0, 10, 20, 31, 44, 64}, 14},
    {{0, 8, 16, 25, 35, 47, 64}, 14},
    {{0, 7, 14, 21, 29, 38, 49, 64}, 14},
    {{0, 6, 12, 18, 25, 32, 40, 50, 64}, 14},
    {{0, 5, 10, 16, 22, 28, 35, 43, 52, 64}, 14},
    {{0, 5, 10, 15, 20, 25, 31, 37, 44, 53, 64}, 14},
    {{0, 4, 8, 12, 17, 22, 27, 32, 38, 45, 53, 64}, 14},
    {{0, 4, 8, 12, 16, 20, 24, 29, 34, 40, 46, 54, 64}, 14},
    {{0, 4, 8, 12, 16, 20, 24, 28, 32, 37, 42, 48, 55, 64}, 14},
    {{0, 3, 6, 9, 13, 17, 21, 25, 29, 33, 38, 43, 49, 56, 64}, 14},
    {{0, 3, 6, 9, 12, 15, 18, 22, 26, 30, 34, 38, 43, 49, 56, 64}, 14},
};
inline constexpr FittedShape kTwoSided[kMostFittedLevels - 1] = {
    {{0, 64}, 21},
    {{0, 32, 64}, 15},
    {{0, 24, 41, 64}, 14},
    {{0, 19, 32, 45, 64}, 14},
    {{0, 16, 27, 37, 48, 64}, 14},
    {{0, 15, 24, 32, 40, 49, 64}, 14},
    {{0, 13, 21, 28, 35, 42, 51, 64}, 14},
    {{0, 12, 20, 26, 32, 38, 44, 52, 64}, 14},
    {{0, 11, 18, 24, 30, 35, 40, 46, 53, 64}, 14},
    {{0, 10, 17, 22, 27, 32, 37, 42, 47, 54, 64}, 14},
    {{0, 10, 16, 21, 26, 30, 34, 38, 43, 48, 54, 64}, 13},
    {{0, 9, 15, 20, 24, 28, 32, 36, 40, 44, 49, 55, 64}, 13},
    {{0, 8, 13, 18, 22, 26, 30, 34, 38, 42, 46, 51, 56, 64}, 14},
    {{0, 8, 14, 18, 22, 26, 29, 32, 35, 38, 42, 46, 50, 56, 64}, 13},
    {{0, 8, 13, 17, 21, 25, 28, 31, 34, 37, 40, 43, 47, 51, 56, 64}, 13},
};

}  // namespace act
