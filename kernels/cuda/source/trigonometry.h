// Sine and cosine of any float, within two units in the last place. CUDA's keep an array on the stack for
// large arguments, which every kernel that calls them then has. These use none.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/math/bfloat16.h"

namespace act {

// x = quadrant pi/2 + rest, with |rest| of at most pi/4 (and a rounding).
struct Angle {
  uint32_t quadrant;
  float rest;
};

// For |x| < 2^20. pi/2 in two parts (Cody and Waite): products of a quadrant with the first, of 32 bits, are exact.
ACT_DEVICE Angle SmallAngle(float x) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1, kHalfPi = 0x1.921fb544p+0,
                   kHalfPiRest = 0x1.0b4611a626331p-34;
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it removes the fraction
  const double quadrant = (double{x} * kTwoOverPi + kRound) - kRound;
  const double rest = (double{x} - quadrant * kHalfPi) - quadrant * kHalfPiRest;
  return {static_cast<uint32_t>(static_cast<int32_t>(quadrant)), static_cast<float>(rest)};
}

// For finite |x| >= 2^20, a whole number m of 24 bits times 2^e. Of 2/pi, only the 96 bits count that m 2^e
// moves to below 4 (Payne and Hanek, Radian Reduction for Trigonometric Functions, 1983).
ACT_DEVICE Angle LargeAngle(float x) {
  static constexpr uint32_t kTwoOverPi[] = {0,          0xA2F9836E, 0x4E441529, 0xFC2757D1,
                                            0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB};
  constexpr double kHalfPi = 0x1.921fb54442d18p+0;
  const uint32_t bits = FloatBits(x), m = (bits & 0x7FFFFFu) | 0x800000u;
  const uint32_t e = (bits >> 23 & 0xFFu) - 150;  // at least -3
  const uint32_t start = e - 2 + 32, word = start / 32, shift = start % 32;
  uint32_t window[3];
#pragma unroll
  for (uint32_t i = 0; i < 3; ++i) {
    const uint64_t two = uint64_t{kTwoOverPi[word + i]} << 32 | kTwoOverPi[word + i + 1];
    window[i] = static_cast<uint32_t>(two << shift >> 32);
  }
  // In 2^-62 of a quadrant, without whole turns.
  const uint64_t turn =
      (uint64_t{m} * window[2] >> 32) + uint64_t{m} * window[1] + (uint64_t{m * window[0]} << 32);
  const auto quadrant = static_cast<uint32_t>((turn + (uint64_t{1} << 61)) >> 62);
  const double rest = static_cast<double>(static_cast<int64_t>(turn << 2)) * 0x1p-64 * kHalfPi;
  return x < 0 ? Angle{0u - quadrant, static_cast<float>(-rest)} : Angle{quadrant, static_cast<float>(rest)};
}

// sin(x + shift pi/2)
ACT_DEVICE float ShiftedSine(float x, uint32_t shift) {
  const float magnitude = fabsf(x);
  if (!(magnitude < FloatOf(0x7F800000u))) return x - x;  // NaN
  const Angle angle = magnitude < 1048576.0f ? SmallAngle(x) : LargeAngle(x);
  const uint32_t quadrant = angle.quadrant + shift;
  // Polynomials by least squares at Chebyshev's nodes of |r| <= pi/4: within .13 and .01 units in the last place.
  const float r = angle.rest, s = r * r;
  const float of_sine = MulAdd(MulAdd(-1.951595332e-04f, s, 8.332165889e-03f), s, -1.666665524e-01f);
  const float of_cosine = MulAdd(MulAdd(2.443585254e-05f, s, -1.388734207e-03f), s, 4.166664556e-02f);
  const float y = quadrant & 1 ? MulAdd(of_cosine, s * s, MulAdd(-0.5f, s, 1.0f)) : MulAdd(of_sine * s, r, r);
  return quadrant & 2 ? -y : y;
}

ACT_DEVICE float Sine(float x) { return x == 0 ? x : ShiftedSine(x, 0); }
ACT_DEVICE float Cosine(float x) { return ShiftedSine(x, 1); }

}  // namespace act
