// Codecs: how a saved activation is stored. This is the host half (sizes); the arithmetic is in kernels/math.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/tensor_type.h"

namespace act {

enum class CodecKind : uint8_t {
  kNone,     // not coded
  kMask,     // 1 bit an element: x > 0; decodes to 1 or 0. No metadata, no error.
  kUniform,  // per-group minimum and scale (bf16 each), levels at equal steps over the group's range
  kIndex,    // lossless small unsigned integers, `bits` each (uint8 tensors: pool indices)
  kSign,     // a side, x > 0 or not, held exactly, and a magnitude: a scale for each side (bf16 each)
  kZero,     // zeros exactly, and kUniform for all that is not zero
};

// How a position between two levels becomes one of them. All but kNearest are unbiased.
enum class Rounding : uint8_t {
  kStochastic,  // up with the probability of its distance from below: a variance of step^2 / 6 on average,
                // 1/4 at most
  kDither,      // subtractive dither: decode takes off what encode added; a variance of step^2 / 12 at every
                // position
  kNearest,     // biased; for comparison
};

inline constexpr int64_t kDefaultGroupSize = 256;

struct Codec {
  CodecKind kind = CodecKind::kNone;
  int32_t bits = 0;        // kUniform, kIndex: 1..8; kSign, kZero: 2..8; kMask: 1
  int32_t group_size = 0;  // elements; 64, 128, 256, 512 or 1024
  int32_t levels =
      0;  // kUniform, kSign, kZero: number of codes, at most 2^bits; kZero: that of zero among them
  int32_t below = 0;  // kSign: the levels of x <= 0, at least 2; the others, at least 2, are those of x > 0
  Rounding rounding = Rounding::kStochastic;

  static Codec Mask() { return {.kind = CodecKind::kMask, .bits = 1, .group_size = kDefaultGroupSize}; }
  static Codec Uniform(int bits, int64_t group = kDefaultGroupSize,
                       Rounding rounding = Rounding::kStochastic) {
    return WithLevels(CodecKind::kUniform, bits, group, rounding);
  }
  static Codec Index(int bits) {
    return {.kind = CodecKind::kIndex, .bits = bits, .group_size = kDefaultGroupSize};
  }
  static Codec Sign(int bits, int below, int64_t group = kDefaultGroupSize,
                    Rounding rounding = Rounding::kDither) {
    Codec codec = WithLevels(CodecKind::kSign, bits, group, rounding);
    codec.below = below;
    return codec;
  }
  static Codec Zero(int bits, int64_t group = kDefaultGroupSize, Rounding rounding = Rounding::kDither) {
    return WithLevels(CodecKind::kZero, bits, group, rounding);
  }
  bool operator==(const Codec&) const = default;

  bool HasLevels() const {
    return kind == CodecKind::kUniform || kind == CodecKind::kSign || kind == CodecKind::kZero;
  }
  // Whether an element is greater than 0 (kZero: not 0) can be read of its code, exactly.
  bool HoldsMask() const { return kind == CodecKind::kSign || kind == CodecKind::kZero; }

 private:
  static Codec WithLevels(CodecKind kind, int bits, int64_t group, Rounding rounding) {
    return {.kind = kind,
            .bits = bits,
            .group_size = static_cast<int32_t>(group),
            .levels = bits > 0 && bits <= 8 ? 1 << bits : 0,
            .rounding = rounding};
  }
};

// The layout of one sample's code. A sample is everything behind the batch axis (the whole tensor where there
// is none).
//   [metadata: groups x metadata_bytes][payload: group 0, group 1, ...]
// A full group of G codes of b bits is b bit planes of G bits (plane 0 is the least significant bit of each
// code; bit i of a plane, little-endian, is element i). The last group may be short, r < G elements: its
// planes take ceil(r / 8) bytes.
struct CodeLayout {
  int64_t elements = 0;        // of one sample
  int64_t groups = 0;          // ceil(elements / group_size)
  int64_t metadata_bytes = 0;  // of one group: 4 (two bf16) where there are levels, else 0
  int64_t payload_offset = 0;  // bytes from the sample's start
  int64_t group_bytes = 0;     // payload of one full group
  int64_t sample_bytes = 0;    // all of it, rounded up to 4 bytes
};
CodeLayout LayoutOf(const Codec& codec, int64_t elements_per_sample);

// Samples and elements per sample of a tensor at batch n; one sample where it has no batch axis.
struct SampleShape {
  Dim samples;
  Dim elements;  // per sample
};
SampleShape SamplesOf(const Dims& dims);

// The code of a tensor of these dims: u8[bytes], bytes a polynomial in N. Nullopt where elements per sample
// vary with N.
std::optional<TensorType> CodeType(const Codec& codec, const Dims& dims);

// "mask1", "uniform2,g256", "sign6+2,g256,dither", "index4": in dumps, reports and --explain.
std::string ToString(const Codec& codec);
// Bits per element of the payload and metadata together, for a long tensor.
double BitsPerElement(const Codec& codec);
// Nullopt when kind, bits and group size are in range; else what is wrong.
std::optional<std::string> CheckCodec(const Codec& codec);

}  // namespace act
