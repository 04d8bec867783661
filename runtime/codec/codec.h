// Codecs: how a saved activation is stored. This is the host's half: sizes, names and checks. The
// differences between codecs are in codec_row.h, the arithmetic is in kernels/math.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/math/codec_spec.h"
#include "runtime/base/tensor_type.h"

namespace act {

struct GroupCode;    // runtime/codec/group_code.h
struct PluginCodec;  // runtime/codec/plugin.h

struct Codec : CodecSpec {
  const GroupCode* groups = nullptr;  // kGroups: its functions
  // Of a shared library: its name, version and sizes, and its functions if it is loaded.
  std::shared_ptr<const PluginCodec> plugin = nullptr;

  static Codec Mask() { return {{.kind = CodecKind::kMask, .bits = 1, .group_size = kDefaultGroupSize}}; }
  static Codec Index(int bits) {
    return {{.kind = CodecKind::kIndex, .bits = bits, .group_size = kDefaultGroupSize}};
  }
  static Codec Cast(const SmallFloat& to) {
    return {{.kind = CodecKind::kCast, .bits = to.Bits(), .group_size = kDefaultGroupSize, .cast = to}};
  }
  // Codes of 2^bits levels. For kSign, `below` of them are below zero. For kZero, one of them is
  // zero.
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
  // The same codec with another number of levels, metadata or spacing.
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
  Codec With(Spacing of_levels) const {
    Codec codec = *this;
    codec.spacing = of_levels;
    return codec;
  }
  Codec Fitted() const { return With(Spacing::kFitted); }
  // Plugin codecs are equal if name, version and sizes are.
  bool operator==(const Codec& other) const;

  // Whether decoding gives the elements back exactly.
  bool IsExact() const;

 private:
  static Codec WithLevels(CodecKind kind, int bits, int64_t group, Rounding rounding) {
    return {{.kind = kind,
             .bits = bits,
             .group_size = static_cast<int32_t>(group),
             .levels = bits > 0 && bits <= 8 ? 1 << bits : 0,
             .rounding = rounding}};
  }
};

// The layout of one sample's code. A sample (code_samples.h) is everything after the batch axis, a
// token of it where samples are long, or the whole tensor if it has no batch axis.
//   [metadata: groups x metadata_bytes][zeros][payload: group 0, group 1, ...][zeros]
// The payload and the next sample begin at multiples of 16 bytes, so that kernels may access 16
// bytes at a time: arenas give tensors at least that alignment. Payloads of groups follow one
// another without gaps.
// A full group of G codes of b bits is b bit planes of G bits. Plane 0 is the least significant bit
// of each code; bit i of a plane, little-endian, is element i. The last group may be short, with r
// < G elements: its planes take ceil(r / 8) bytes.
// Where n > 1 codes share a number of b bits (CodePackingOf), a group of r elements has W = ceil(r
// / n) numbers. Code i is digit i / W of number i % W (digit 0 is the lowest, missing ones are 0).
// The numbers' b planes of W bits follow one another bit by bit: ceil(W b / 8) bytes.
// Casts are plain arrays.
struct CodeLayout {
  int64_t elements = 0;        // of one sample
  int64_t groups = 0;          // ceil(elements / group_size)
  int64_t metadata_bytes = 0;  // of one group
  int64_t payload_offset = 0;  // bytes from the sample's start, a multiple of 16
  int64_t group_bytes = 0;     // payload of one full group
  int64_t payload_bytes = 0;   // of all groups
  int64_t sample_bytes = 0;    // all of it, a multiple of 16
  CodePacking packing = {};    // of codes with levels, masks and indices
};
CodeLayout LayoutOf(const Codec& codec, int64_t elements_per_sample);
// Bytes of the codes of a group of `count` <= group_size elements.
int64_t PayloadBytes(const Codec& codec, int64_t count);
int64_t MetadataBytes(const Codec& codec);

// Samples and elements per sample of a tensor at batch n. One sample if it has no batch axis.
struct SampleShape {
  Dim samples;
  Dim elements;  // per sample
};
SampleShape SamplesOf(const Dims& dims);

// The type of a tensor's code: u8[bytes], where bytes is a polynomial in N. Nullopt if the number
// of elements in a sample varies with N.
std::optional<TensorType> CodeType(const Codec& codec, const Dims& dims);

// The bytes of such a code at batch n without the zeros that align its parts, each sample rounded
// up to 4 bytes. kTooLarge if it has no type. Choices between codecs compare these bytes: alignment
// costs all codecs the same, but would decide between codes of small samples.
int64_t PackedBytes(const Codec& codec, const Dims& dims, int64_t n);

// The name in dumps, reports and --explain: "mask1", "uniform2,g256", "sign3+2,g256,dither,log8",
// "index4", "bf16".
std::string ToString(const Codec& codec);
// Bits per element of a long tensor, payload and metadata together.
double BitsPerElement(const Codec& codec);
// Nullopt if kind, bits and group size are in range. Otherwise says what is wrong.
std::optional<std::string> CheckCodec(const Codec& codec);

}  // namespace act
