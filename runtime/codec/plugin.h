// Codecs from shared libraries (include/act/codec_plugin.h): loads them, and calls them with or
// without checks.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "include/act/codec_plugin.h"
#include "runtime/codec/group_code.h"

namespace act {

inline constexpr int64_t kMostPluginMetadata = 64;  // bytes per group

// Set by the first call of a plugin that did not keep to its sizes.
struct PluginFault {
  std::atomic<const char*> what{nullptr};
};

// A plugin's codec at the sizes of one form. Codec::plugin points to it.
struct PluginCodec {
  std::string name;
  int64_t version = 0;
  int32_t metadata_bytes = 0, group_bytes = 0;
  // Null if the library is not loaded. Then only the sizes are known.
  const act_codec* functions = nullptr;
  // Where checked calls report faults. Null if calls are not checked.
  std::shared_ptr<PluginFault> fault;

  bool SameCodec(const PluginCodec& other) const {
    return name == other.name && version == other.version && metadata_bytes == other.metadata_bytes &&
           group_bytes == other.group_bytes;
  }
};

// Loads a library for the rest of the process and asks for its codec. Errors: no library, no entry
// point, another ABI version, a missing name or function.
llvm::Expected<const act_codec*> LoadCodecPlugin(const std::string& path);

// The plugin's codec at this number of bits. Errors: the plugin does not support that number, its
// sizes are out of range, or a trial finds that it does not keep to them. The trial encodes and
// decodes a few groups of every kind in guarded memory.
llvm::Expected<Codec> MakePluginCodec(const act_codec& functions, int bits, int64_t group_size);

// Finds what a codec with functions does wrong on a few groups. Null if nothing is wrong.
const char* TryPlugin(const Codec& codec);

// Encode and decode one group by a codec with functions. If the codec has a PluginFault, the call is
// made twice, in guarded memory, and the fault is kept there.
void EncodePluginGroup(const Codec& codec, const GroupKey& key, const float* x, int64_t count,
                       uint8_t* metadata, uint8_t* payload);
void DecodePluginGroup(const Codec& codec, const GroupKey& key, const uint8_t* metadata,
                       const uint8_t* payload, int64_t count, float* x);
inline constexpr GroupCode kPluginGroups = {EncodePluginGroup, DecodePluginGroup};

}  // namespace act
