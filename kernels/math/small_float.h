// Casts to floating-point formats of fewer bits (CodecKind::kCast), to nearest even. A number that
// is too large becomes the largest number. Infinities stay infinite, or become NaN in a format that
// has none. So a run's overflow shows, and a cast adds none. NaN has one code, without a sign: that
// of 0 / 0 is another on each machine. The arithmetic is on integers, except for products with powers
// of two: the bits are the same everywhere, whatever the processor does with denormals.
#pragma once

#include <cstdint>

#include "kernels/math/bfloat16.h"

namespace act {

// A format of a sign, 2 to 8 bits of exponent and 1 to 22 bits of mantissa. Bias and numbers are
// those of IEEE 754. With infinities, the largest exponent is that of infinity and NaN, as in
// IEEE 754. Without, that exponent belongs to numbers, and only the code of all ones is NaN (as in
// E4M3 of the OCP 8-bit floating point specification).
struct SmallFloat {
  uint8_t exponent_bits = 0, mantissa_bits = 0;
  bool infinities = true;

  ACT_HOST_DEVICE constexpr int Bias() const { return (1 << exponent_bits) / 2 - 1; }
  ACT_HOST_DEVICE constexpr int Bits() const { return 1 + exponent_bits + mantissa_bits; }
  // Codes without a sign: that of infinity (NaN, if it has none), of NaN, of the largest number.
  ACT_HOST_DEVICE constexpr uint32_t Infinity() const {
    const uint32_t ones = (1u << (exponent_bits + mantissa_bits)) - 1;
    return infinities ? ones >> mantissa_bits << mantissa_bits : ones;
  }
  ACT_HOST_DEVICE constexpr uint32_t NaN() const {
    return infinities ? Infinity() | 1u << (mantissa_bits - 1) : Infinity();
  }
  ACT_HOST_DEVICE constexpr uint32_t Largest() const { return Infinity() - 1; }
  bool operator==(const SmallFloat&) const = default;
};

inline constexpr SmallFloat kFloat16 = {.exponent_bits = 5, .mantissa_bits = 10};
inline constexpr SmallFloat kBFloat16 = {.exponent_bits = 8, .mantissa_bits = 7};

// The float32 bits of the largest number, of the least normal one, and of 2^23 times the least
// denormal. Adding the last to a smaller number rounds that to nearest even: the low bits of the
// sum are then a multiple of the least denormal.
ACT_HOST_DEVICE inline uint32_t LargestBits(const SmallFloat& f) {
  return (f.Largest() << (23 - f.mantissa_bits)) + (static_cast<uint32_t>(127 - f.Bias()) << 23);
}
ACT_HOST_DEVICE inline uint32_t LeastNormalBits(const SmallFloat& f) {
  return static_cast<uint32_t>(128 - f.Bias()) << 23;
}
ACT_HOST_DEVICE inline uint32_t DenormalMagicBits(const SmallFloat& f) {
  return static_cast<uint32_t>(128 - f.Bias() - f.mantissa_bits + 23) << 23;
}
// 2^-(bias + mantissa bits - 1): the least denormal.
ACT_HOST_DEVICE inline float LeastDenormal(const SmallFloat& f) {
  const int exponent = 128 - f.Bias() - f.mantissa_bits;
  return FloatOf(exponent > 0 ? static_cast<uint32_t>(exponent) << 23 : 1u << (22 + exponent));
}

ACT_HOST_DEVICE inline uint32_t EncodeSmallFloat(const SmallFloat& f, float x) {
  const uint32_t bits = BitsOf(x), magnitude = bits & 0x7FFFFFFFu;
  const uint32_t sign = bits >> 31 << (f.Bits() - 1);
  if (magnitude > 0x7F800000u) return f.NaN();
  if (magnitude == 0x7F800000u) return sign | f.Infinity();
  if (magnitude < LeastNormalBits(f) && f.exponent_bits < 8) {
    const uint32_t magic = DenormalMagicBits(f);
    return sign | (BitsOf(FloatOf(magnitude) + FloatOf(magic)) - magic);
  }
  const int cut = 23 - f.mantissa_bits;
  const uint32_t capped = magnitude < LargestBits(f) ? magnitude : LargestBits(f);
  const uint32_t rounded = capped + (1u << (cut - 1)) - 1 + (capped >> cut & 1);
  return sign | ((rounded >> cut) - (static_cast<uint32_t>(127 - f.Bias()) << f.mantissa_bits));
}

// Whether a code, of either sign, is NaN or infinite.
ACT_HOST_DEVICE inline bool IsNotFinite(const SmallFloat& f, uint32_t bits) {
  return (bits & ((1u << (f.Bits() - 1)) - 1)) > f.Largest();
}

ACT_HOST_DEVICE inline float DecodeSmallFloat(const SmallFloat& f, uint32_t bits) {
  const uint32_t sign = bits >> (f.Bits() - 1) << 31, magnitude = bits & ((1u << (f.Bits() - 1)) - 1);
  if (magnitude > f.Largest())
    return FloatOf(sign | (magnitude == f.Infinity() && f.infinities ? 0x7F800000u : 0x7FC00000u));
  if (magnitude >> f.mantissa_bits == 0 && f.exponent_bits < 8)
    return FloatOf(sign | BitsOf(static_cast<float>(magnitude) * LeastDenormal(f)));
  return FloatOf(sign |
                 ((magnitude << (23 - f.mantissa_bits)) + (static_cast<uint32_t>(127 - f.Bias()) << 23)));
}

// Element i of an array of codes, which follow one another, low bits first. Codes of less than a
// byte share a byte.
ACT_HOST_DEVICE inline uint32_t SmallFloatAt(const SmallFloat& f, const uint8_t* codes, int64_t i) {
  const int64_t first = i * f.Bits();
  if (f.Bits() < 8) return codes[first / 8] >> (first % 8) & ((1u << f.Bits()) - 1);
  uint32_t bits = 0;
  for (int b = 0; b < f.Bits(); b += 8) bits |= static_cast<uint32_t>(codes[(first + b) / 8]) << b;
  return bits;
}
// Writes element i, whose bits must be 0 before.
ACT_HOST_DEVICE inline void PutSmallFloat(const SmallFloat& f, uint32_t bits, int64_t i, uint8_t* codes) {
  const int64_t first = i * f.Bits();
  for (int b = 0; b < f.Bits(); b += 8)
    codes[(first + b) / 8] |= static_cast<uint8_t>(bits >> b << ((first + b) % 8));
}

}  // namespace act
