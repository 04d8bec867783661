// Numbers of a distribution, made of random bits (random.h). Logarithm and cosine are of these few lines and of
// correctly rounded arithmetic, so that a number has the same bits wherever it is drawn; those of libraries differ in
// the last bits of a double.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/host_device.h"

namespace act {

// In [0, 1), with as many bits as a float has.
ACT_HOST_DEVICE inline double UniformNumber(uint32_t bits) { return (bits >> 8) * 0x1p-24; }

// log(n / 2^32) for 1 <= n <= 2^32, within a unit in the last place: a root and a power of 2 apart from 1 it is a
// polynomial in f / (2 + f) (Sun Microsystems' fdlibm, e_log.c).
ACT_HOST_DEVICE inline double LogOfPart(uint64_t n) {
  constexpr double kLog2High = 0x1.62e42fee00000p-1, kLog2Low = 0x1.a39ef35793c76p-33,
                   kRoot2 = 0x1.6a09e667f3bcdp+0;
  const uint64_t bits = __builtin_bit_cast(uint64_t, static_cast<double>(n));
  auto power = static_cast<int32_t>(bits >> 52) - 1023 - 32;
  double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > kRoot2) {
    m *= .5;
    ++power;
  }
  const double f = m - 1, s = f / (2 + f), z = s * s, w = z * z, half = .5 * f * f;
  const double odd = w * (0x1.999999997fa04p-2 + w * (0x1.c71c51d8e78afp-3 + w * 0x1.39a09d078c69fp-3));
  const double even =
      z * (0x1.5555555555593p-1 +
           w * (0x1.2492494229359p-2 + w * (0x1.7466496cb03dep-3 + w * 0x1.2f112df3e5244p-3)));
  return power * kLog2High - ((half - (s * (half + (odd + even)) + power * kLog2Low)) - f);
}

// cos(2 pi turn / 2^32), within two units in the last place (fdlibm, k_cos.c and k_sin.c).
ACT_HOST_DEVICE inline double CosineOfTurn(uint32_t turn) {
  constexpr double kUnit = 0x1.921fb54442d18p-30;  // 2 pi / 2^32
  const uint32_t quadrant = (turn + (uint32_t{1} << 29)) >> 30;
  const double x = static_cast<int32_t>(turn - (quadrant << 30)) * kUnit, z = x * x;
  if (quadrant % 2 == 1) {
    const double r =
        0x1.111111110f8a6p-7 +
        z * (-0x1.a01a019c161d5p-13 +
             z * (0x1.71de357b1fe7dp-19 + z * (-0x1.ae5e68a2b9cebp-26 + z * 0x1.5d93a5acfd57cp-33)));
    const double sine = x + z * x * (-0x1.5555555555549p-3 + z * r);
    return quadrant == 1 ? -sine : sine;
  }
  const double r =
      z *
      (0x1.555555555554cp-5 +
       z * (-0x1.6c16c16c15177p-10 +
            z * (0x1.a01a019cb1590p-16 +
                 z * (-0x1.27e4f809c52adp-22 + z * (0x1.1ee9ebdb4b1c4p-29 + z * -0x1.8fae9be8838d4p-37)))));
  const double half = .5 * z, rest = 1 - half;
  const double cosine = rest + (((1 - rest) - half) + z * r);
  return quadrant == 0 ? cosine : -cosine;
}

// Standard normal, from two words. Box and Muller, A note on the generation of random normal deviates, 1958.
ACT_HOST_DEVICE inline double NormalNumber(uint32_t radius, uint32_t turn) {
  return std::sqrt(-2 * LogOfPart(uint64_t{radius} + 1)) * CosineOfTurn(turn);  // never the logarithm of 0
}

}  // namespace act
