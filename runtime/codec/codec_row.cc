#include "runtime/codec/codec_row.h"

#include <iterator>

#include "kernels/math/small_float.h"
#include "runtime/codec/error_model.h"
#include "runtime/codec/level_codec.h"
#include "runtime/codec/plugin.h"

namespace act {
namespace {

using Wrong = std::optional<std::string>;

std::string BitsAreNot(const Codec& codec, const char* range) {
  return std::to_string(codec.bits) + " bits are not " + range;
}

// ---- Shared by several kinds

int64_t NoMetadata(const Codec&) { return 0; }
// Bit planes.
int64_t PlaneBytes(const Codec& codec, int64_t count) { return codec.bits * CeilDiv(count, 8); }
double NoError(const Codec&, const GroupStatistics&) { return 0; }
int64_t AllFinite(const Codec&, const CodeLayout&, const uint8_t*) { return 0; }
void ReadNothing(const Attributes&, Codec&) {}
void WriteNothing(const Codec&, Attributes&) {}

// ---- kNone, and numbers that are not a kind

std::string NoName(const Codec& codec) { return codec.kind == CodecKind::kNone ? "none" : "?"; }
Wrong CheckNone(const Codec& codec) {
  return "codec kind " + std::to_string(static_cast<int>(codec.kind)) + " is not one that stores codes";
}
int64_t NoPayload(const Codec&, int64_t) { return 0; }

// ---- kMask, kIndex

std::string MaskName(const Codec&) { return "mask1"; }
Wrong CheckMask(const Codec& codec) {
  return codec.bits == 1 ? std::nullopt : Wrong(BitsAreNot(codec, "the 1 of a mask"));
}
std::string IndexName(const Codec& codec) { return "index" + std::to_string(codec.bits); }
Wrong CheckIndex(const Codec& codec) {
  return codec.bits >= 1 && codec.bits <= 8 ? std::nullopt : Wrong(BitsAreNot(codec, "in 1..8"));
}

// ---- Casts

std::string CastName(const Codec& codec) { return RowOf(codec.kind).attribute; }
Wrong CheckCast(const Codec& codec) {
  const bool fit = codec.bits == FormatOf(codec.kind).Bits();
  return fit ? std::nullopt : Wrong(BitsAreNot(codec, "those of the type"));
}
// A plain array.
int64_t CastBytes(const Codec& codec, int64_t count) { return CeilDiv(count * codec.bits, 8); }
int64_t CastsNotFinite(const Codec& codec, const CodeLayout& layout, const uint8_t* code) {
  const SmallFloat format = FormatOf(codec.kind);
  const uint8_t* payload = code + layout.payload_offset;
  int64_t count = 0;
  for (int64_t i = 0; i < layout.elements; ++i)
    count += IsNotFinite(format, SmallFloatAt(format, payload, i));
  return count;
}

// ---- kPlugin

std::string PluginName(const Codec& codec) {
  return "plugin " + (codec.plugin ? codec.plugin->name : "?") + std::to_string(codec.bits) + ",g" +
         std::to_string(codec.group_size);
}
Wrong CheckPlugin(const Codec& codec) {
  if (!codec.plugin) return "a plugin's codec without its plugin";
  const PluginCodec& plugin = *codec.plugin;
  if (codec.bits < 1 || codec.bits > 8) return BitsAreNot(codec, "in 1..8");
  if (plugin.metadata_bytes < 0 || plugin.metadata_bytes > kMostPluginMetadata)
    return std::to_string(plugin.metadata_bytes) + " metadata bytes of a group are not in 0.." +
           std::to_string(kMostPluginMetadata);
  if (plugin.group_bytes < 1 || plugin.group_bytes > 4 * codec.group_size)
    return std::to_string(plugin.group_bytes) + " bytes of a group are not in 1.." +
           std::to_string(4 * codec.group_size);
  return std::nullopt;
}
int64_t PluginMetadata(const Codec& codec) { return codec.plugin->metadata_bytes; }
int64_t PluginBytes(const Codec& codec, int64_t count) {
  return CeilDiv(count * codec.plugin->group_bytes, codec.group_size);
}
void ReadPlugin(const Attributes& attrs, Codec& codec) {
  auto plugin = std::make_shared<PluginCodec>();
  plugin->name = attrs.String("plugin");
  plugin->version = attrs.Int("version");
  plugin->metadata_bytes = static_cast<int32_t>(attrs.Int("metadata_bytes"));
  plugin->group_bytes = static_cast<int32_t>(attrs.Int("group_bytes"));
  codec.plugin = std::move(plugin);
}
void WritePlugin(const Codec& codec, Attributes& attrs) {
  attrs.Set("plugin", codec.plugin->name);
  attrs.Set("version", codec.plugin->version);
  attrs.Set("metadata_bytes", int64_t{codec.plugin->metadata_bytes});
  attrs.Set("group_bytes", int64_t{codec.plugin->group_bytes});
}

// ---- The table

constexpr CodecRow Exact(CodecKind kind, const char* attribute, std::string (*name)(const Codec&),
                         Wrong (*check)(const Codec&), int64_t (*payload_bytes)(const Codec&, int64_t)) {
  return {.kind = kind,
          .attribute = attribute,
          .exact = true,
          .name = name,
          .check = check,
          .metadata_bytes = NoMetadata,
          .payload_bytes = payload_bytes,
          .error = NoError,
          .count_not_finite = AllFinite,
          .read = ReadNothing,
          .write = WriteNothing};
}
constexpr CodecRow Levels(CodecKind kind, const char* attribute, std::string (*name)(const Codec&)) {
  return {.kind = kind,
          .attribute = attribute,
          .exact = false,
          .name = name,
          .check = level_codec::Check,
          .metadata_bytes = level_codec::MetadataBytes,
          .payload_bytes = level_codec::PayloadBytes,
          .error = LevelError,
          .count_not_finite = level_codec::CountNotFinite,
          .read = level_codec::Read,
          .write = level_codec::Write};
}
constexpr CodecRow Cast(CodecKind kind, const char* attribute) {
  return {.kind = kind,
          .attribute = attribute,
          .exact = false,
          .name = CastName,
          .check = CheckCast,
          .metadata_bytes = NoMetadata,
          .payload_bytes = CastBytes,
          .error = CastError,
          .count_not_finite = CastsNotFinite,
          .read = ReadNothing,
          .write = WriteNothing};
}

constexpr CodecRow kRows[] = {
    Exact(CodecKind::kNone, "none", NoName, CheckNone, NoPayload),
    Exact(CodecKind::kMask, "mask", MaskName, CheckMask, PlaneBytes),
    Levels(CodecKind::kUniform, "uniform", level_codec::UniformName),
    Exact(CodecKind::kIndex, "index", IndexName, CheckIndex, PlaneBytes),
    Levels(CodecKind::kSign, "sign", level_codec::SignName),
    Levels(CodecKind::kZero, "zero", level_codec::ZeroName),
    Cast(CodecKind::kFloat16, "fp16"),
    Cast(CodecKind::kBFloat16, "bf16"),
    Cast(CodecKind::kFloat8E4M3, "fp8e4m3"),
    Cast(CodecKind::kFloat8E5M2, "fp8e5m2"),
    {.kind = CodecKind::kPlugin,
     .attribute = "plugin",
     .exact = false,
     .name = PluginName,
     .check = CheckPlugin,
     .metadata_bytes = PluginMetadata,
     .payload_bytes = PluginBytes,
     .error = NoError,               // unknown: the policy keeps the level's bits
     .count_not_finite = AllFinite,  // the meaning of its bytes is unknown here
     .read = ReadPlugin,
     .write = WritePlugin},
};

// Whether each kind has its row, in order, and no row lacks an entry. Otherwise this file does
// not compile.
constexpr bool Complete() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    const CodecRow& r = kRows[i];
    if (r.kind != static_cast<CodecKind>(i) || !r.attribute || !r.name || !r.check || !r.metadata_bytes ||
        !r.payload_bytes || !r.error || !r.count_not_finite || !r.read || !r.write)
      return false;
    if (IsCast(r.kind) != (r.payload_bytes == CastBytes)) return false;
    if (CodecSpec{.kind = r.kind}.HasLevels() != (r.payload_bytes == level_codec::PayloadBytes)) return false;
  }
  return std::size(kRows) == static_cast<size_t>(kLastCodecKind) + 1;
}
// SmallFloatAt and PutSmallFloat rely on this: a cast's code is whole bytes, or lies within
// one byte.
constexpr bool CastsFitBytes() {
  for (const CodecRow& r : kRows) {
    const int bits = FormatOf(r.kind).Bits();
    if (8 % bits != 0 && bits % 8 != 0) return false;
  }
  return true;
}
static_assert(CastsFitBytes(), "a cast's bits have to divide 8, or be a multiple of 8");
static_assert(Complete(), "a kind of codec has no row, stands out of order, or its row lacks an entry");

}  // namespace

std::span<const CodecRow> AllCodecRows() { return kRows; }

const CodecRow& RowOf(CodecKind kind) {
  return kRows[kind <= kLastCodecKind ? static_cast<size_t>(kind) : 0];
}

}  // namespace act
