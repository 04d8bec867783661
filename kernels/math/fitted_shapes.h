// K levels at unequal distances. They lie in a range [0, K - 1], in units of the distance between
// even levels.
//
// Encode rounds a position between two levels up with probability f, its fraction of their distance
// d, as for even levels. Decode gives level q + B (1/2 - u). That is unbiased for every B.
// Its variance
//     E[d^2 f (1 - f)] - B E[d f (1 - f)] + B^2 / 12
// is least for B = 6 E[d f (1 - f)]. For each number of levels, a row of kFittedSpacings holds the
// levels, in 1/64 of the range, and B, in 1/16 of the even distance. The names of codecs, their
// arithmetic on every backend and their expected error follow from the row.
#pragma once

#include <cstdint>

namespace act {

// How levels are placed over their range.
enum class Spacing : uint8_t {
  kEven,
  kFitted,  // this and all that follow: in the order of kFittedSpacings; kDither alone
};

// Limit of fitted levels over one range: all levels of kUniform, those of kZero without the level
// of zero, those of one side of kSign.
inline constexpr int kMostFittedLevels = 16;
inline constexpr int kFittedGrid = 64;
struct FittedShape {
  uint8_t at[kMostFittedLevels] = {};  // 1/64 of the range
  uint8_t dither = 0;                  // B in 1/16 of an even step; 0: there is no such shape
};

// For 2..16 levels: element i has i + 2 levels.
struct FittedSpacing {
  const char* name;                              // in printed names and attributes
  FittedShape one_side[kMostFittedLevels - 1];   // from 0 on: the sides of kSign, kZero
  FittedShape two_sides[kMostFittedLevels - 1];  // around 0: kUniform
};

inline constexpr FittedSpacing kFittedSpacings[] = {
    // Denser where a normal distribution is denser. These levels and B make the variance least of
    // all, about .8 of that of even levels. They were found by dynamic programming over the levels
    // for each B, and the test repeats that.
    //   one side   a half normal cut at 2.8 deviations, the expected largest of 128
    //   two sides  a normal cut at 2.9 deviations on both sides
    {"fitted",
     {
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
     },
     {
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
     }},
};
inline constexpr int kFittedSpacingCount = sizeof kFittedSpacings / sizeof kFittedSpacings[0];
inline constexpr Spacing kLastSpacing = static_cast<Spacing>(kFittedSpacingCount);

}  // namespace act
