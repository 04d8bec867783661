// Casts to 16 and 8 bits (CodecKind::kFloat16, kBFloat16, kFloat8E4M3, kFloat8E5M2), to nearest
// even. A number that is too large becomes the largest number. Infinities stay infinite, or become
// NaN in E4M3, which has none. So a run's overflow shows, and a cast adds none. The arithmetic is
// on integers, except for products with powers of two: the bits are the same everywhere, whatever
// the processor does with denormals.
#pragma once

#include <cstdint>

#include "kernels/math/bfloat16.h"
#include "kernels/math/codec_spec.h"

namespace act {

struct SmallFloat {
  int exponent_bits = 0, mantissa_bits = 0;
  uint32_t largest = 0;   // its largest number
  uint32_t infinity = 0;  // NaN, if it has none
  uint32_t nan = 0;
  ACT_HOST_DEVICE constexpr int Bias() const { return (1 << (exponent_bits - 1)) - 1; }
  ACT_HOST_DEVICE constexpr int Bits() const { return 1 + exponent_bits + mantissa_bits; }
};

// The format of a kind that is a cast. All members are 0 for other kinds.
ACT_HOST_DEVICE constexpr SmallFloat FormatOf(CodecKind kind) {
  switch (kind) {
    case CodecKind::kFloat16:
      return {5, 10, 0x7BFF, 0x7C00, 0x7E00};
    case CodecKind::kBFloat16:
      return {8, 7, 0x7F7F, 0x7F80, 0x7FC0};
    case CodecKind::kFloat8E4M3:
      return {4, 3, 0x7E, 0x7F, 0x7F};
    case CodecKind::kFloat8E5M2:
      return {5, 2, 0x7B, 0x7C, 0x7E};
    case CodecKind::kNone:
    case CodecKind::kMask:
    case CodecKind::kUniform:
    case CodecKind::kIndex:
    case CodecKind::kSign:
    case CodecKind::kZero:
    case CodecKind::kPlugin:
      break;
  }
  return {};
}
ACT_HOST_DEVICE constexpr bool IsCast(CodecKind kind) { return FormatOf(kind).exponent_bits != 0; }

// The float32 bits of the largest number, of the least normal one, and of 2^23 times the least
// denormal. Adding the last to a smaller number rounds that to nearest even: the low bits of the
// sum are then a multiple of the least denormal.
ACT_HOST_DEVICE inline uint32_t LargestBits(const SmallFloat& f) {
  return (f.largest << (23 - f.mantissa_bits)) + (static_cast<uint32_t>(127 - f.Bias()) << 23);
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
  if (magnitude > 0x7F800000u) return sign | f.nan;
  if (magnitude == 0x7F800000u) return sign | f.infinity;
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
  return (bits & ((1u << (f.Bits() - 1)) - 1)) > f.largest;
}

ACT_HOST_DEVICE inline float DecodeSmallFloat(const SmallFloat& f, uint32_t bits) {
  const uint32_t sign = bits >> (f.Bits() - 1) << 31, magnitude = bits & ((1u << (f.Bits() - 1)) - 1);
  if (magnitude > f.largest)
    return FloatOf(sign | (magnitude == f.infinity && f.infinity != f.nan ? 0x7F800000u : 0x7FC00000u));
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
