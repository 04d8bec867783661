// Codecs: how a saved activation is stored. This is the host half (sizes); the arithmetic is in kernels/math.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/tensor_type.h"

namespace act {

enum class CodecKind : uint8_t {
  kNone,     // not coded
  kMask,     // 1 bit an element: x > 0; decodes to 1 or 0. No metadata, no error.
  kUniform,  // per-group minimum and scale, levels at equal steps over the group's range
  kIndex,    // lossless small unsigned integers, `bits` each (uint8 tensors: pool indices)
  kSign,     // a side, x > 0 or not, held exactly, and a magnitude: a scale for each side
  kZero,     // zeros exactly, and kUniform for all that is not zero
  kFloat16,  // casts, to nearest even; what is too large for the type becomes its largest number
  kBFloat16,
  kFloat8E4M3,  // 4 bits of exponent, 3 of mantissa, no infinities (OCP 8-bit floating point, E4M3)
  kFloat8E5M2,
  kPlugin,  // of a shared library (runtime/codec/plugin.h)
};

// How a position between two levels becomes one of them. All but kNearest are unbiased.
enum class Rounding : uint8_t {
  kStochastic,  // up with the probability of its distance from below: a variance of step^2 / 6 on average,
                // 1/4 at most
  kDither,      // subtractive dither: decode takes off what encode added; a variance of step^2 / 12 at every
                // position
  kNearest,     // biased; for comparison
};

// What a group stores beside its codes. A scale is rounded up, to 8 significant bits (bf16) or to the 16
// steps an octave of an 8-bit logarithm (kernels/math/level_scale.h).
enum class Metadata : uint8_t {
  kPair,     // kSign: two bf16 scales; others: bf16 minimum and scale. 4 bytes
  kLogPair,  // kSign: two 8-bit scales, 2 bytes; others: bf16 minimum, 8-bit scale, 3 bytes
  kSingle,   // one bf16 scale, 2 bytes. kSign: of both sides. Others: levels from 0 on where nothing is below
             // it, else on both sides of 0 alike
  kLogSingle,  // one 8-bit scale, 1 byte. kSign: of both sides; kUniform: levels on both sides of 0 alike
  kSides,      // kSign alone: bf16 minimum and scale of the magnitudes of each side, 8 bytes
};

// Where levels lie over their range.
enum class Spacing : uint8_t {
  kEven,
  kFitted,  // denser where a normal distribution is (kernels/math/fitted_levels.h); kDither alone
};

inline constexpr int64_t kDefaultGroupSize = 256;
inline constexpr int kMostLevels = 256;
// Fitted levels over one range: of kUniform all, of kZero all but that of zero, of kSign those of a side.
inline constexpr int kMostFittedLevels = 16;

// The fewest bits that hold `levels` codes.
constexpr int BitsOfLevels(int levels) {
  int bits = 0;
  while ((1 << bits) < levels) ++bits;
  return bits;
}

struct PluginCodec;  // runtime/codec/plugin.h

struct Codec {
  CodecKind kind = CodecKind::kNone;
  int32_t bits = 0;        // of one code; where there are levels, BitsOfLevels(levels); kPlugin: asked for
  int32_t group_size = 0;  // elements; 64, 128, 256, 512 or 1024
  int32_t levels = 0;      // kUniform, kSign, kZero: number of codes; kZero: that of zero among them
  int32_t below = 0;  // kSign: the levels of x <= 0, at least 2; the others, at least 2, are those of x > 0
  Rounding rounding = Rounding::kStochastic;
  Metadata metadata = Metadata::kPair;
  Spacing spacing = Spacing::kEven;
  // kPlugin: its name, version, sizes and, where loaded, functions.
  std::shared_ptr<const PluginCodec> plugin = nullptr;

  static Codec Mask() { return {.kind = CodecKind::kMask, .bits = 1, .group_size = kDefaultGroupSize}; }
  static Codec Index(int bits) {
    return {.kind = CodecKind::kIndex, .bits = bits, .group_size = kDefaultGroupSize};
  }
  // kFloat16, kBFloat16, kFloat8E4M3, kFloat8E5M2.
  static Codec Cast(CodecKind to) {
    const bool half = to == CodecKind::kFloat16 || to == CodecKind::kBFloat16;
    return {.kind = to, .bits = half ? 16 : 8, .group_size = kDefaultGroupSize};
  }
  // Codes of 2^bits levels. kSign: `below` of them; kZero: zero's among them.
  static Codec Uniform(int bits, int64_t group = kDefaultGroupSize,
                       Rounding rounding = Rounding::kStochastic) {
    return WithLevels(CodecKind::kUniform, bits, group, rounding);
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
  // The same with another number of levels, metadata or spacing.
  Codec OfLevels(int count) const {
    Codec codec = *this;
    codec.levels = count;
    codec.bits = BitsOfLevels(count);
    return codec;
  }
  Codec With(Metadata form) const {
    Codec codec = *this;
    codec.metadata = form;
    return codec;
  }
  Codec Fitted() const {
    Codec codec = *this;
    codec.spacing = Spacing::kFitted;
    return codec;
  }
  // Of plugins: the same name, version and sizes.
  bool operator==(const Codec& other) const;

  bool HasLevels() const {
    return kind == CodecKind::kUniform || kind == CodecKind::kSign || kind == CodecKind::kZero;
  }
  bool IsCast() const { return kind >= CodecKind::kFloat16 && kind <= CodecKind::kFloat8E5M2; }
  // Whether an element is greater than 0 (kZero: not 0) can be read of its code, exactly.
  bool HoldsMask() const { return kind == CodecKind::kSign || kind == CodecKind::kZero; }
  int LevelsAbove() const { return levels - below; }  // kSign

 private:
  static Codec WithLevels(CodecKind kind, int bits, int64_t group, Rounding rounding) {
    return {.kind = kind,
            .bits = bits,
            .group_size = static_cast<int32_t>(group),
            .levels = bits > 0 && bits <= 8 ? 1 << bits : 0,
            .rounding = rounding};
  }
};

// `codes` codes of K levels are written as one number below K^codes, of `bits` bits: 3 of 5 levels in 7 bits.
// Where that takes no less than a power of two of levels, codes = 1.
struct CodePacking {
  int codes = 1;
  int bits = 0;
};
// The densest with at most 5 codes and 16 bits: within 9 % of log2 K for every K.
constexpr CodePacking CodePackingOf(int levels) {
  CodePacking best{1, BitsOfLevels(levels)};
  int64_t product = levels;
  for (int codes = 2; codes <= 5; ++codes) {
    product *= levels;
    if (product > 1 << 16) break;
    const int bits = BitsOfLevels(static_cast<int>(product));
    if (bits * best.codes < best.bits * codes) best = {codes, bits};
  }
  return best;
}
inline CodePacking CodePackingOf(const Codec& codec) {
  return codec.HasLevels() ? CodePackingOf(codec.levels) : CodePacking{1, codec.bits};
}

// The layout of one sample's code. A sample is everything behind the batch axis (the whole tensor where there
// is none).
//   [metadata: groups x metadata_bytes][payload: group 0, group 1, ...]
// A full group of G codes of b bits is b bit planes of G bits (plane 0 is the least significant bit of each
// code; bit i of a plane, little-endian, is element i). The last group may be short, r < G elements: its
// planes take ceil(r / 8) bytes. Where n > 1 codes share a number of b bits (CodePackingOf), a group of r
// elements has W = ceil(r / n) numbers, code i is digit i / W of number i % W (digit 0 the lowest, missing
// ones 0), and the numbers' b planes of W bits follow one another bit by bit: ceil(W b / 8) bytes. Casts are
// plain arrays.
struct CodeLayout {
  int64_t elements = 0;        // of one sample
  int64_t groups = 0;          // ceil(elements / group_size)
  int64_t metadata_bytes = 0;  // of one group
  int64_t payload_offset = 0;  // bytes from the sample's start
  int64_t group_bytes = 0;     // payload of one full group
  int64_t payload_bytes = 0;   // of all groups
  int64_t sample_bytes = 0;    // all of it, rounded up to 4 bytes
  CodePacking packing = {};    // of codes with levels, masks and indices
};
CodeLayout LayoutOf(const Codec& codec, int64_t elements_per_sample);
// Bytes of the codes of a group of `count` <= group_size elements.
int64_t PayloadBytes(const Codec& codec, int64_t count);
int64_t MetadataBytes(const Codec& codec);

// Samples and elements per sample of a tensor at batch n; one sample where it has no batch axis.
struct SampleShape {
  Dim samples;
  Dim elements;  // per sample
};
SampleShape SamplesOf(const Dims& dims);

// The code of a tensor of these dims: u8[bytes], bytes a polynomial in N. Nullopt where elements per sample
// vary with N.
std::optional<TensorType> CodeType(const Codec& codec, const Dims& dims);

// "mask1", "uniform2,g256", "sign3+2,g256,dither,log8", "index4", "bf16": in dumps, reports and --explain.
std::string ToString(const Codec& codec);
// Bits per element of the payload and metadata together, for a long tensor.
double BitsPerElement(const Codec& codec);
// Nullopt when kind, bits and group size are in range; else what is wrong.
std::optional<std::string> CheckCodec(const Codec& codec);

}  // namespace act
