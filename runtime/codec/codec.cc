#include "runtime/codec/codec.h"

namespace act {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace

CodeLayout LayoutOf(const Codec& codec, int64_t elements_per_sample) {
  const int64_t group = codec.group_size;
  CodeLayout layout;
  layout.elements = elements_per_sample;
  layout.groups = CeilDiv(elements_per_sample, group);
  layout.metadata_bytes = codec.HasLevels() ? 4 : 0;
  layout.payload_offset = SaturatingMul(layout.groups, layout.metadata_bytes);
  layout.group_bytes = codec.bits * (group / 8);
  const int64_t full_groups = elements_per_sample / group;
  const int64_t short_bytes = codec.bits * CeilDiv(elements_per_sample % group, 8);
  const int64_t payload = SaturatingAdd(SaturatingMul(full_groups, layout.group_bytes), short_bytes);
  const int64_t bytes = SaturatingAdd(layout.payload_offset, payload);
  layout.sample_bytes = SaturatingMul(CeilDiv(bytes, 4), 4);
  return layout;
}

SampleShape SamplesOf(const Dims& dims) {
  SampleShape shape{Dim(1), Dim(1)};
  const bool batched = !dims.empty() && !dims[0].IsFixed();
  if (batched) shape.samples = dims[0];
  for (size_t i = batched ? 1 : 0; i < dims.size(); ++i) shape.elements = shape.elements * dims[i];
  return shape;
}

std::optional<TensorType> CodeType(const Codec& codec, const Dims& dims) {
  const SampleShape shape = SamplesOf(dims);
  if (CheckCodec(codec) || !shape.elements.IsFixed() || shape.elements.fixed < 0) return std::nullopt;
  const Dim bytes = shape.samples * Dim(LayoutOf(codec, shape.elements.fixed).sample_bytes);
  return TensorType{DType::kUint8, {bytes}};
}

std::string ToString(const Codec& codec) {
  std::string name;
  switch (codec.kind) {
    case CodecKind::kNone:
      return "none";
    case CodecKind::kMask:
      return "mask1";
    case CodecKind::kIndex:
      return "index" + std::to_string(codec.bits);
    case CodecKind::kUniform:
      name = "uniform" + std::to_string(codec.bits);
      break;
    case CodecKind::kSign:
      name = "sign" + std::to_string(codec.levels - codec.below) + "+" + std::to_string(codec.below);
      break;
    case CodecKind::kZero:
      name = "zero+" + std::to_string(codec.levels - 1);
      break;
    default:
      return "?";
  }
  if (codec.kind == CodecKind::kUniform && codec.levels != 1 << codec.bits)
    name += "(" + std::to_string(codec.levels) + " levels)";
  name += ",g" + std::to_string(codec.group_size);
  if (codec.rounding == Rounding::kDither) name += ",dither";
  if (codec.rounding == Rounding::kNearest) name += ",nearest";
  return name;
}

double BitsPerElement(const Codec& codec) {
  const double metadata = codec.HasLevels() ? 32.0 / codec.group_size : 0;
  return codec.bits + metadata;
}

std::optional<std::string> CheckCodec(const Codec& codec) {
  const int64_t group = codec.group_size;
  if (group < 64 || group > 1024 || (group & (group - 1)) != 0)
    return "group size " + std::to_string(group) + " is not a power of two in 64..1024";
  const auto bits_are_not = [&codec](const char* range) {
    return std::to_string(codec.bits) + " bits are not in " + range;
  };
  if (codec.rounding > Rounding::kNearest) return "no such rounding";
  switch (codec.kind) {
    case CodecKind::kMask:
      if (codec.bits != 1) return "a mask has 1 bit, not " + std::to_string(codec.bits);
      return std::nullopt;
    case CodecKind::kIndex:
      if (codec.bits < 1 || codec.bits > 8) return bits_are_not("1..8");
      return std::nullopt;
    case CodecKind::kUniform:
    case CodecKind::kSign:
    case CodecKind::kZero: {
      const int least = codec.kind == CodecKind::kUniform ? 1 : 2;
      if (codec.bits < least || codec.bits > 8) return bits_are_not(least == 1 ? "1..8" : "2..8");
      // Zero and two more, or two of each side.
      const int fewest = codec.kind == CodecKind::kUniform ? 2 : codec.kind == CodecKind::kZero ? 3 : 4;
      if (codec.levels < fewest || codec.levels > 1 << codec.bits)
        return std::to_string(codec.levels) + " levels are not in " + std::to_string(fewest) + ".." +
               std::to_string(1 << codec.bits);
      const bool sign = codec.kind == CodecKind::kSign;
      if (sign ? codec.below < 2 || codec.below > codec.levels - 2 : codec.below != 0)
        return std::to_string(codec.below) + " levels below zero, of " + std::to_string(codec.levels);
      return std::nullopt;
    }
    case CodecKind::kNone:
      break;
  }
  return "codec kind " + std::to_string(static_cast<int>(codec.kind)) + " is not one that stores codes";
}

}  // namespace act
