#include "runtime/codec/codec_row.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "runtime/codec/error_model.h"
#include "runtime/codec/level_codec.h"
#include "runtime/codec/plugin.h"

namespace act {
namespace {

using Wrong = std::optional<std::string>;

std::string BitsAreNot(const Codec& codec, const char* range) {
  return std::to_string(codec.bits) + " bits are not " + range;
}

}  // namespace

namespace usual_row {

std::string Name(const Codec& codec) {
  const CodecRow& row = RowOf(codec);
  return row.attribute + std::to_string(codec.bits) +
         (row.exact ? "" : ",g" + std::to_string(codec.group_size));
}
Wrong Check(const Codec& codec) {
  return codec.bits >= 1 && codec.bits <= 8 ? std::nullopt : Wrong(BitsAreNot(codec, "in 1..8"));
}
int64_t NoMetadata(const Codec&) { return 0; }
int64_t PlaneBytes(const Codec& codec, int64_t count) { return codec.bits * CeilDiv(count, 8); }
double NoError(const Codec&, const GroupStatistics&) { return 0; }
int64_t AllFinite(const Codec&, const CodeLayout&, const uint8_t*) { return 0; }
void ReadNothing(const Attributes&, Codec&) {}
void WriteNothing(const Codec&, Attributes&) {}

}  // namespace usual_row

namespace {

// ---- No codec, and codecs that are not in the table

std::string NoName(const Codec& codec) { return codec.kind == CodecKind::kNone ? "none" : "?"; }
Wrong CheckNone(const Codec& codec) {
  return codec.kind == CodecKind::kNone ? "no codec" : "a codec that the table of codecs does not have";
}
int64_t NoPayload(const Codec&, int64_t) { return 0; }

// ---- kMask

Wrong CheckMask(const Codec& codec) {
  return codec.bits == 1 ? std::nullopt : Wrong(BitsAreNot(codec, "the 1 of a mask"));
}

// ---- Casts

std::string CastName(const Codec& codec) { return RowOf(codec).attribute; }
Wrong CheckCast(const Codec& codec) {
  return codec.bits == codec.cast.Bits() ? std::nullopt : Wrong(BitsAreNot(codec, "those of the type"));
}
// A plain array.
int64_t CastBytes(const Codec& codec, int64_t count) { return CeilDiv(count * codec.bits, 8); }
// Of codes that are whole words. A block's count fits a word's 16 bits, so that compilers count as many
// at once as a vector has.
template <class Word>
int64_t WordsNotFinite(const SmallFloat& format, const uint8_t* payload, int64_t elements) {
  constexpr int64_t kBlock = 1 << 12;
  const auto magnitude = static_cast<Word>((1u << (format.Bits() - 1)) - 1);
  const auto largest = static_cast<Word>(format.Largest());
  int64_t count = 0;
  for (int64_t first = 0; first < elements; first += kBlock) {
    std::array<Word, kBlock> words;
    const int64_t size = std::min(kBlock, elements - first);
    std::memcpy(words.data(), payload + first * static_cast<int64_t>(sizeof(Word)),
                static_cast<size_t>(size) * sizeof(Word));
    int16_t found = 0;
    for (int64_t i = 0; i < size; ++i)
      found = static_cast<int16_t>(found + ((words[static_cast<size_t>(i)] & magnitude) > largest ? 1 : 0));
    count += found;
  }
  return count;
}

int64_t CastsNotFinite(const Codec& codec, const CodeLayout& layout, const uint8_t* code) {
  const uint8_t* payload = code + layout.payload_offset;
  if (codec.cast.Bits() == 16) return WordsNotFinite<int16_t>(codec.cast, payload, layout.elements);
  if (codec.cast.Bits() == 8) return WordsNotFinite<int8_t>(codec.cast, payload, layout.elements);
  int64_t count = 0;
  for (int64_t i = 0; i < layout.elements; ++i)
    count += IsNotFinite(codec.cast, SmallFloatAt(codec.cast, payload, i));
  return count;
}

// ---- Plugins

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

constexpr CodecRow Levels(const char* attribute, CodecKind kind, std::string (*name)(const Codec&)) {
  return {.attribute = attribute,
          .kind = kind,
          .name = name,
          .check = level_codec::Check,
          .metadata_bytes = level_codec::MetadataBytes,
          .payload_bytes = level_codec::PayloadBytes,
          .error = LevelError,
          .count_not_finite = level_codec::CountNotFinite,
          .read = level_codec::Read,
          .write = level_codec::Write};
}
constexpr CodecRow Cast(const char* attribute, const SmallFloat& format) {
  return {.attribute = attribute,
          .kind = CodecKind::kCast,
          .cast = format,
          .name = CastName,
          .check = CheckCast,
          .payload_bytes = CastBytes,
          .error = CastError,
          .count_not_finite = CastsNotFinite};
}

constexpr CodecRow kRows[] = {
    {.attribute = "none",
     .kind = CodecKind::kNone,
     .exact = true,
     .name = NoName,
     .check = CheckNone,
     .payload_bytes = NoPayload},
    {.attribute = "mask", .kind = CodecKind::kMask, .exact = true, .check = CheckMask},
    {.attribute = "index", .kind = CodecKind::kIndex, .exact = true},
    Levels("uniform", CodecKind::kUniform, level_codec::UniformName),
    Levels("sign", CodecKind::kSign, level_codec::SignName),
    Levels("zero", CodecKind::kZero, level_codec::ZeroName),
    Cast("fp16", kFloat16),
    Cast("bf16", kBFloat16),
    Cast("fp8e4m3", {.exponent_bits = 4, .mantissa_bits = 3, .infinities = false}),
    Cast("fp8e5m2", {.exponent_bits = 5, .mantissa_bits = 2}),
    // Its error is unknown, so the policy keeps the level's bits. The meaning of its bytes is unknown
    // here.
    {.attribute = "plugin",
     .kind = CodecKind::kGroups,
     .groups = &kPluginGroups,
     .name = PluginName,
     .check = CheckPlugin,
     .metadata_bytes = PluginMetadata,
     .payload_bytes = PluginBytes,
     .read = ReadPlugin,
     .write = WritePlugin},
};

constexpr bool IsOf(const CodecRow& row, CodecKind kind, const SmallFloat& cast, const GroupCode* groups) {
  return row.kind == kind && row.cast == cast && row.groups == groups;
}

// Whether the kernels have loops for the codec.
constexpr bool FitsKernels(const CodecRow& r) {
  const bool has_levels = CodecSpec{.kind = r.kind}.HasLevels();
  if (has_levels != (r.payload_bytes == level_codec::PayloadBytes)) return false;
  if ((r.kind == CodecKind::kGroups) != (r.groups != nullptr)) return false;
  if (r.kind != CodecKind::kCast) return r.cast == SmallFloat{};
  const SmallFloat& f = r.cast;
  return f.exponent_bits >= 2 && f.exponent_bits <= 8 && f.mantissa_bits >= 1 &&
         (f.Bits() == 8 || f.Bits() == 16);
}
// Whether no other row has its name, or is of the same codec.
constexpr bool IsOnce(const CodecRow& row) {
  return std::ranges::count_if(kRows, [&](const CodecRow& other) {
           return std::string_view(other.attribute) == row.attribute ||
                  IsOf(other, row.kind, row.cast, row.groups);
         }) == 1;
}
static_assert(std::ranges::all_of(kRows, FitsKernels),
              "a cast has 2 to 8 bits of exponent, and 8 or 16 in all; functions are of kind kGroups alone");
static_assert(std::ranges::all_of(kRows, IsOnce), "two rows have one name, or are of one codec");

}  // namespace

std::span<const CodecRow> AllCodecRows() { return kRows; }

const CodecRow& RowOf(const Codec& codec) {
  const auto row = std::ranges::find_if(
      kRows, [&](const CodecRow& r) { return IsOf(r, codec.kind, codec.cast, codec.groups); });
  return row == std::end(kRows) ? kRows[0] : *row;
}

Codec CodecOf(const CodecRow& row, int bits, int64_t group_size) {
  Codec codec{{.kind = row.kind, .bits = bits, .group_size = static_cast<int32_t>(group_size)}};
  codec.cast = row.cast;
  codec.groups = row.groups;
  return codec.HasLevels() && bits >= 1 && bits <= 8 ? codec.OfLevels(1 << bits) : codec;
}

Codec CodecOf(const Attributes& attrs) {
  const std::string name = attrs.String("kind");
  const auto row = std::ranges::find(kRows, name, &CodecRow::attribute);
  if (row == std::end(kRows)) return {};
  Codec codec = CodecOf(*row, static_cast<int>(attrs.Int("bits")), attrs.Int("group_size"));
  row->read(attrs, codec);
  return codec;
}

Attributes AttributesOf(const Codec& codec) {
  const CodecRow& row = RowOf(codec);
  Attributes attrs;
  attrs.Set("kind", std::string(row.attribute));
  attrs.Set("bits", int64_t{codec.bits});
  attrs.Set("group_size", int64_t{codec.group_size});
  row.write(codec, attrs);
  return attrs;
}

}  // namespace act
