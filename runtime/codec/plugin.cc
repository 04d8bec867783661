#include "runtime/codec/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "runtime/base/error.h"

namespace act {
namespace {

constexpr int64_t kMostGroup = 1024, kMostMetadata = kMostPluginMetadata, kMostPayload = 4 * kMostGroup;
// Bytes before and after what a plugin writes: as many as a group of floats has.
constexpr int64_t kGuard = 4096;

act_codec_form FormOf(const Codec& codec) {
  return {static_cast<uint32_t>(codec.bits), static_cast<uint32_t>(codec.group_size),
          static_cast<uint32_t>(codec.plugin->metadata_bytes),
          static_cast<uint32_t>(codec.plugin->group_bytes)};
}

act_codec_key PluginKey(const GroupKey& key) {
  return {key.random.seed, key.random.step, key.group, key.random.stream};
}

// A buffer filled with a known byte, with guards of the same byte before and after it.
template <int64_t kBytes>
struct Guarded {
  alignas(64) uint8_t bytes[kBytes + 2 * kGuard];
  uint8_t fill;
  explicit Guarded(uint8_t with) : fill(with) { std::memset(bytes, fill, sizeof bytes); }
  uint8_t* data() { return bytes + kGuard; }
  // Whether no byte outside the first `used` bytes was written.
  bool Intact(int64_t used) const {
    const auto is_fill = [this](uint8_t b) { return b == fill; };
    return std::all_of(bytes, bytes + kGuard, is_fill) &&
           std::all_of(bytes + kGuard + used, bytes + sizeof bytes, is_fill);
  }
};

constexpr uint8_t kFills[2] = {0x5A, 0xA5};

// Encodes twice, into buffers with different fills. A byte that then differs was not written, or
// was not computed from the operands alone.
const char* CheckedEncode(const Codec& codec, const act_codec_key& key, const float* x, int64_t count,
                          uint8_t* metadata, uint8_t* payload) {
  const act_codec_form form = FormOf(codec);
  const int64_t metadata_bytes = MetadataBytes(codec), payload_bytes = PayloadBytes(codec, count);
  for (const uint8_t fill : kFills) {
    Guarded<kMostMetadata> m(fill);
    Guarded<kMostPayload> p(fill);
    codec.plugin->functions->encode(&form, &key, x, static_cast<uint32_t>(count), m.data(), p.data());
    if (!m.Intact(metadata_bytes)) return "encode writes more metadata than its form says";
    if (!p.Intact(payload_bytes)) return "encode writes more payload than its form says";
    const auto size = [](int64_t bytes) { return static_cast<size_t>(bytes); };
    if (fill == kFills[1] && (std::memcmp(m.data(), metadata, size(metadata_bytes)) != 0 ||
                              std::memcmp(p.data(), payload, size(payload_bytes)) != 0))
      return "encode leaves bytes of its code unwritten, or does not repeat itself";
    std::memcpy(metadata, m.data(), size(metadata_bytes));
    std::memcpy(payload, p.data(), size(payload_bytes));
  }
  return nullptr;
}

const char* CheckedDecode(const Codec& codec, const act_codec_key& key, const uint8_t* metadata,
                          const uint8_t* payload, int64_t count, float* x) {
  const act_codec_form form = FormOf(codec);
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  for (const uint8_t fill : kFills) {
    Guarded<kMostMetadata> m(fill);
    Guarded<kMostPayload> p(fill);
    Guarded<kMostGroup * int64_t{sizeof(float)}> to(fill);
    std::memcpy(m.data(), metadata, static_cast<size_t>(MetadataBytes(codec)));
    std::memcpy(p.data(), payload, static_cast<size_t>(PayloadBytes(codec, count)));
    codec.plugin->functions->decode(&form, &key, m.data(), p.data(), static_cast<uint32_t>(count),
                                    reinterpret_cast<float*>(to.data()));
    if (!to.Intact(static_cast<int64_t>(bytes))) return "decode writes past the elements of its group";
    if (fill == kFills[1] && std::memcmp(to.data(), x, bytes) != 0)
      return "decode reads more than encode writes, leaves elements unwritten, or does not repeat itself";
    std::memcpy(x, to.data(), bytes);
  }
  return nullptr;
}

bool IsName(std::string_view name) {
  const auto in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), in_name);
}

}  // namespace

llvm::Expected<const act_codec*> LoadCodecPlugin(const std::string& path) {
  const std::string place = "--plugin=" + path;
  // dlopen looks for a path without a folder among the system's libraries.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    return MakeError(place, std::string("cannot be loaded: ") + (why ? why : "unknown reason"));
  }
  using Entry = const act_codec* (*)(uint32_t);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "act_codec_plugin"));
  if (!entry)
    return MakeError(place, "a library without act_codec_plugin: not a codec", "see docs/adding_a_codec.md");
  const std::string ours = std::to_string(ACT_CODEC_ABI_VERSION);
  const act_codec* codec = entry(ACT_CODEC_ABI_VERSION);
  if (!codec || codec->abi_version != ACT_CODEC_ABI_VERSION)
    return MakeError(place,
                     codec ? "of ABI version " + std::to_string(codec->abi_version) +
                                 ", this program takes version " + ours
                           : "does not support ABI version " + ours,
                     "build it against this version's act/codec_plugin.h");
  if (!codec->name || !IsName(codec->name))
    return MakeError(place, "its codec's name is not 1 to 64 letters, digits, '-' and '_'");
  if (!codec->form || !codec->encode || !codec->decode)
    return MakeError(place, "codec '" + std::string(codec->name) + "' leaves out a function");
  return codec;
}

llvm::Expected<Codec> MakePluginCodec(const act_codec& functions, int bits, int64_t group_size) {
  const std::string place = "codec '" + std::string(functions.name) + "'";
  act_codec_form form = {static_cast<uint32_t>(bits), static_cast<uint32_t>(group_size), 0, 0};
  if (!functions.form(&form)) return MakeError(place, "has no form of " + std::to_string(bits) + " bits");
  auto plugin = std::make_shared<PluginCodec>();
  plugin->name = functions.name;
  plugin->version = functions.version;
  // A size that does not fit stays too large, so that CheckCodec refuses it.
  const auto size = [](uint32_t bytes) { return static_cast<int32_t>(std::min(bytes, uint32_t{1} << 30)); };
  plugin->metadata_bytes = size(form.metadata_bytes);
  plugin->group_bytes = size(form.group_bytes);
  plugin->functions = &functions;
  Codec codec{{.kind = CodecKind::kGroups, .bits = bits, .group_size = size(form.group_size)}};
  codec.groups = &kPluginGroups;
  codec.plugin = std::move(plugin);
  if (const auto wrong = CheckCodec(codec)) return MakeError(place, *wrong);
  if (const char* wrong = TryPlugin(codec))
    return MakeError(place, wrong, "the codec is wrong, not its use: docs/adding_a_codec.md, Sizes");
  return codec;
}

const char* TryPlugin(const Codec& codec) {
  const int64_t group = codec.group_size;
  for (const int64_t count : {group, int64_t{1}, int64_t{3}, group - 1, group / 2 + 1})
    for (int kind = 0; kind < 5; ++kind) {
      float x[kMostGroup], y[kMostGroup];
      for (int64_t i = 0; i < count; ++i) {
        const float spread = std::sin(static_cast<float>(7 * i + count)) * 3;
        const float kinds[] = {spread, 0.0f, -2.5f, std::max(spread, 0.0f), spread * 1e30f};
        x[i] = kinds[kind];
      }
      if (kind == 4) {
        x[count / 2] = std::numeric_limits<float>::quiet_NaN();
        x[0] = -std::numeric_limits<float>::infinity();
      }
      const act_codec_key key = {1, 2, static_cast<uint64_t>(kind), 3};
      uint8_t metadata[kMostMetadata], payload[kMostPayload];
      if (const char* wrong = CheckedEncode(codec, key, x, count, metadata, payload)) return wrong;
      if (const char* wrong = CheckedDecode(codec, key, metadata, payload, count, y)) return wrong;
    }
  return nullptr;
}

void EncodePluginGroup(const Codec& codec, const GroupKey& of, const float* x, int64_t count,
                       uint8_t* metadata, uint8_t* payload) {
  const PluginCodec& plugin = *codec.plugin;
  const act_codec_key key = PluginKey(of);
  if (plugin.fault) {
    if (const char* wrong = CheckedEncode(codec, key, x, count, metadata, payload))
      plugin.fault->what = wrong;
    return;
  }
  const act_codec_form form = FormOf(codec);
  plugin.functions->encode(&form, &key, x, static_cast<uint32_t>(count), metadata, payload);
}

void DecodePluginGroup(const Codec& codec, const GroupKey& of, const uint8_t* metadata,
                       const uint8_t* payload, int64_t count, float* x) {
  const PluginCodec& plugin = *codec.plugin;
  const act_codec_key key = PluginKey(of);
  if (plugin.fault) {
    if (const char* wrong = CheckedDecode(codec, key, metadata, payload, count, x))
      plugin.fault->what = wrong;
    return;
  }
  const act_codec_form form = FormOf(codec);
  plugin.functions->decode(&form, &key, metadata, payload, static_cast<uint32_t>(count), x);
}

}  // namespace act
