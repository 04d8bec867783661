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
  kUniform,  // per-group minimum and scale (bf16 each), 2^bits levels, stochastic rounding: unbiased
  kIndex,    // lossless small unsigned integers, `bits` each (uint8 tensors: pool indices)
};

inline constexpr int64_t kDefaultGroupSize = 256;

struct Codec {
  CodecKind kind = CodecKind::kNone;
  int32_t bits = 0;         // kUniform: 1..8, kIndex: 1..8, kMask: 1
  int32_t group_size = 0;   // elements; 64, 128, 256, 512 or 1024

  static Codec Mask() { return {CodecKind::kMask, 1, kDefaultGroupSize}; }
  static Codec Uniform(int bits, int64_t group = kDefaultGroupSize) {
    return {CodecKind::kUniform, bits, static_cast<int32_t>(group)};
  }
  static Codec Index(int bits) { return {CodecKind::kIndex, bits, kDefaultGroupSize}; }
  bool operator==(const Codec&) const = default;
};

// The layout of one sample's code. A sample is everything behind the batch axis (the whole tensor where there is none).
//   [metadata: groups x metadata_bytes][payload: group 0, group 1, ...]
// A full group of G codes of b bits is b bit planes of G bits (plane 0 is the least significant bit of each code; bit i of
// a plane, little-endian, is element i). The last group may be short, r < G elements: its planes take ceil(r / 8) bytes.
struct CodeLayout {
  int64_t elements = 0;         // of one sample
  int64_t groups = 0;           // ceil(elements / group_size)
  int64_t metadata_bytes = 0;   // of one group: kUniform 4 (bf16 minimum, bf16 scale), else 0
  int64_t payload_offset = 0;   // bytes from the sample's start
  int64_t group_bytes = 0;      // payload of one full group
  int64_t sample_bytes = 0;     // all of it, rounded up to 4 bytes
};
CodeLayout LayoutOf(const Codec& codec, int64_t elements_per_sample);

// Samples and elements per sample of a tensor at batch n; one sample where it has no batch axis.
struct SampleShape {
  Dim samples;
  Dim elements;  // per sample
};
SampleShape SamplesOf(const Dims& dims);

// The code of a tensor of these dims: u8[bytes], bytes a polynomial in N. Nullopt where elements per sample vary with N.
std::optional<TensorType> CodeType(const Codec& codec, const Dims& dims);

// "mask1", "uniform2,g256", "index4": in dumps, reports and --explain.
std::string ToString(const Codec& codec);
// Bits per element of the payload and metadata together, for a long tensor.
double BitsPerElement(const Codec& codec);
// Nullopt when kind, bits and group size are in range; else what is wrong.
std::optional<std::string> CheckCodec(const Codec& codec);

}  // namespace act
