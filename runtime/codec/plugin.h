// Codecs from shared libraries (include/act/codec_plugin.h): loading them, and calling them with or without
// checks.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "include/act/codec_plugin.h"
#include "runtime/codec/codec.h"

namespace act {

inline constexpr int64_t kMostPluginMetadata = 64;  // bytes of a group

// Set by the first call of a plugin that did not keep to its sizes.
struct PluginFault {
  std::atomic<const char*> what{nullptr};
};

// A codec of a plugin at the sizes of one form: what Codec::plugin points to.
struct PluginCodec {
  std::string name;
  int64_t version = 0;
  int32_t metadata_bytes = 0, group_bytes = 0;
  // Null where the library is not loaded: then sizes are known and nothing else.
  const act_codec* functions = nullptr;
  // Where calls are checked, what they find; else null.
  std::shared_ptr<PluginFault> fault;

  bool SameCodec(const PluginCodec& other) const {
    return name == other.name && version == other.version && metadata_bytes == other.metadata_bytes &&
           group_bytes == other.group_bytes;
  }
};

// Loads a library for the rest of the process and asks for its codec. Errors: no library, no entry point,
// another ABI version, a name or functions missing.
llvm::Expected<const act_codec*> LoadCodecPlugin(const std::string& path);

// The plugin's codec at this number of bits. Errors: it has none, or sizes out of range; or a trial, which
// encodes and decodes a few groups of every kind in guarded memory, finds that it does not keep to them.
llvm::Expected<Codec> MakePluginCodec(const act_codec& functions, int bits, int64_t group_size);

// Finds what a codec with functions does wrong on a few groups; null where nothing.
const char* TryPlugin(const Codec& codec);

// One group of 1..group_size elements, by a codec with functions. metadata and payload: MetadataBytes(codec)
// and PayloadBytes(codec, count) bytes. Where the codec has a PluginFault, the call is made twice in guarded
// memory and what is wrong is kept there.
void EncodePluginGroup(const Codec& codec, const act_codec_key& key, const float* x, int64_t count,
                       uint8_t* metadata, uint8_t* payload);
void DecodePluginGroup(const Codec& codec, const act_codec_key& key, const uint8_t* metadata,
                       const uint8_t* payload, int64_t count, float* x);

}  // namespace act
