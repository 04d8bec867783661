#include "runtime/codec/codec.h"

#include <algorithm>
#include <tuple>

#include "runtime/codec/plugin.h"

namespace act {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace

bool Codec::operator==(const Codec& other) const {
  const auto scalars = [](const Codec& c) {
    return std::tie(c.kind, c.bits, c.group_size, c.levels, c.below, c.rounding, c.metadata, c.spacing);
  };
  if (scalars(*this) != scalars(other) || !plugin != !other.plugin) return false;
  return !plugin || plugin->SameCodec(*other.plugin);
}

int64_t MetadataBytes(const Codec& codec) {
  if (codec.kind == CodecKind::kPlugin) return codec.plugin->metadata_bytes;
  if (!codec.HasLevels()) return 0;
  switch (codec.metadata) {
    case Metadata::kPair:
      return 4;
    case Metadata::kLogPair:
      return codec.kind == CodecKind::kSign ? 2 : 3;
    case Metadata::kSingle:
      return 2;
    case Metadata::kLogSingle:
      return 1;
    case Metadata::kSides:
      return 8;
  }
  return 0;
}

int64_t PayloadBytes(const Codec& codec, int64_t count) {
  if (codec.IsCast()) return count * (codec.bits / 8);
  if (codec.kind == CodecKind::kPlugin) return CeilDiv(count * codec.plugin->group_bytes, codec.group_size);
  const CodePacking packing = CodePackingOf(codec);
  if (packing.codes == 1) return packing.bits * CeilDiv(count, 8);
  return CeilDiv(packing.bits * CeilDiv(count, packing.codes), 8);
}

CodeLayout LayoutOf(const Codec& codec, int64_t elements_per_sample) {
  const int64_t group = codec.group_size;
  CodeLayout layout;
  layout.elements = elements_per_sample;
  layout.packing = CodePackingOf(codec);
  layout.groups = CeilDiv(elements_per_sample, group);
  layout.metadata_bytes = MetadataBytes(codec);
  layout.payload_offset = SaturatingMul(layout.groups, layout.metadata_bytes);
  layout.group_bytes = PayloadBytes(codec, group);
  const int64_t full_groups = elements_per_sample / group;
  const int64_t short_bytes = PayloadBytes(codec, elements_per_sample % group);
  layout.payload_bytes = SaturatingAdd(SaturatingMul(full_groups, layout.group_bytes), short_bytes);
  const int64_t bytes = SaturatingAdd(layout.payload_offset, layout.payload_bytes);
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
  const auto number = [](int n) { return std::to_string(n); };
  std::string name;
  switch (codec.kind) {
    case CodecKind::kNone:
      return "none";
    case CodecKind::kMask:
      return "mask1";
    case CodecKind::kIndex:
      return "index" + number(codec.bits);
    case CodecKind::kFloat16:
      return "fp16";
    case CodecKind::kBFloat16:
      return "bf16";
    case CodecKind::kFloat8E4M3:
      return "fp8e4m3";
    case CodecKind::kFloat8E5M2:
      return "fp8e5m2";
    case CodecKind::kUniform:
      name = codec.levels == 1 << codec.bits ? "uniform" + number(codec.bits)
                                             : "uniform(" + number(codec.levels) + " levels)";
      break;
    case CodecKind::kSign:
      name = "sign" + number(codec.LevelsAbove()) + "+" + number(codec.below);
      break;
    case CodecKind::kZero:
      name = "zero+" + number(codec.levels - 1);
      break;
    case CodecKind::kPlugin:
      name = "plugin " + (codec.plugin ? codec.plugin->name : "?") + number(codec.bits);
      break;
    default:
      return "?";
  }
  name += ",g" + number(codec.group_size);
  if (codec.rounding == Rounding::kDither) name += ",dither";
  if (codec.rounding == Rounding::kNearest) name += ",nearest";
  if (codec.metadata == Metadata::kLogPair) name += ",log8";
  if (codec.metadata == Metadata::kSingle) name += ",one";
  if (codec.metadata == Metadata::kLogSingle) name += ",one log8";
  if (codec.metadata == Metadata::kSides) name += ",sides";
  if (codec.spacing == Spacing::kFitted) name += ",fitted";
  return name;
}

double BitsPerElement(const Codec& codec) {
  return 8.0 * static_cast<double>(PayloadBytes(codec, codec.group_size) + MetadataBytes(codec)) /
         codec.group_size;
}

namespace {

std::optional<std::string> CheckLevels(const Codec& codec) {
  const bool sign = codec.kind == CodecKind::kSign, zero = codec.kind == CodecKind::kZero;
  const int least = sign || zero ? 2 : 1;
  if (codec.bits < least || codec.bits > 8)
    return std::to_string(codec.bits) + " bits are not in " + std::to_string(least) + "..8";
  // Zero and two more, or two of each side.
  const int fewest = sign ? 4 : zero ? 3 : 2;
  if (codec.levels < fewest || codec.levels > kMostLevels)
    return std::to_string(codec.levels) + " levels are not in " + std::to_string(fewest) + ".." +
           std::to_string(kMostLevels);
  if (codec.bits != BitsOfLevels(codec.levels))
    return std::to_string(codec.levels) + " levels do not take " + std::to_string(codec.bits) + " bits";
  if (sign ? codec.below < 2 || codec.below > codec.levels - 2 : codec.below != 0)
    return std::to_string(codec.below) + " levels below zero, of " + std::to_string(codec.levels);
  if (codec.rounding > Rounding::kNearest) return "no such rounding";
  if (codec.metadata > Metadata::kSides) return "no such metadata";
  if (codec.metadata == Metadata::kSides && (!sign || codec.spacing != Spacing::kEven))
    return "minima of two sides are a sign code's, with even levels";
  if (zero && codec.metadata == Metadata::kLogSingle)
    return "a zero code's 8-bit scale has no room for where its levels start";
  if (codec.spacing > Spacing::kFitted) return "no such spacing of levels";
  if (codec.spacing == Spacing::kEven) return std::nullopt;
  const int over_a_range = sign   ? std::max(codec.below, codec.LevelsAbove())
                           : zero ? codec.levels - 1
                                  : codec.levels;
  if (over_a_range > kMostFittedLevels)
    return std::to_string(over_a_range) + " levels over a range are more than the " +
           std::to_string(kMostFittedLevels) + " that can be fitted";
  if (codec.rounding != Rounding::kDither) return "fitted levels are rounded with dither";
  if (!sign && codec.metadata != Metadata::kPair && codec.metadata != Metadata::kLogPair)
    return "fitted levels of one range need its minimum";
  return std::nullopt;
}

std::optional<std::string> CheckPluginSizes(const Codec& codec) {
  if (!codec.plugin) return "a plugin's codec without its plugin";
  const PluginCodec& plugin = *codec.plugin;
  if (codec.bits < 1 || codec.bits > 8) return std::to_string(codec.bits) + " bits are not in 1..8";
  if (plugin.metadata_bytes < 0 || plugin.metadata_bytes > kMostPluginMetadata)
    return std::to_string(plugin.metadata_bytes) + " metadata bytes of a group are not in 0.." +
           std::to_string(kMostPluginMetadata);
  if (plugin.group_bytes < 1 || plugin.group_bytes > 4 * codec.group_size)
    return std::to_string(plugin.group_bytes) + " bytes of a group are not in 1.." +
           std::to_string(4 * codec.group_size);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckCodec(const Codec& codec) {
  const int64_t group = codec.group_size;
  if (group < 64 || group > 1024 || (group & (group - 1)) != 0)
    return "group size " + std::to_string(group) + " is not a power of two in 64..1024";
  if (codec.HasLevels()) return CheckLevels(codec);
  if (codec.kind == CodecKind::kPlugin) return CheckPluginSizes(codec);
  const auto bits_are_not = [&codec](const char* range) {
    return std::to_string(codec.bits) + " bits are not " + range;
  };
  switch (codec.kind) {
    case CodecKind::kMask:
      return codec.bits == 1 ? std::nullopt : std::optional(bits_are_not("the 1 of a mask"));
    case CodecKind::kIndex:
      return codec.bits >= 1 && codec.bits <= 8 ? std::nullopt : std::optional(bits_are_not("in 1..8"));
    case CodecKind::kFloat16:
    case CodecKind::kBFloat16:
    case CodecKind::kFloat8E4M3:
    case CodecKind::kFloat8E5M2:
      if (codec.bits != Codec::Cast(codec.kind).bits) return bits_are_not("those of the type");
      return std::nullopt;
    default:
      return "codec kind " + std::to_string(static_cast<int>(codec.kind)) + " is not one that stores codes";
  }
}

}  // namespace act
