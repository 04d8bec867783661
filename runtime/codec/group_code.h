// The groups of a sample's code: each is encoded and decoded by itself. For codecs of
// CodecKind::kGroups, two functions do that.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/math/random.h"
#include "runtime/codec/codec.h"

namespace act {

// The place of a group in its sample, and in the bytes of the sample's code.
struct GroupPlace {
  int64_t number;
  int64_t first, count;  // elements
  int64_t metadata, payload;
};
inline GroupPlace PlaceOfGroup(const Codec& codec, const CodeLayout& layout, int64_t number) {
  const int64_t first = number * codec.group_size;
  return {number, first, std::min<int64_t>(codec.group_size, layout.elements - first),
          number * layout.metadata_bytes, layout.payload_offset + number * layout.group_bytes};
}

// The key of a group's random numbers. It is the same for encode and decode, and no two groups have
// the same.
struct GroupKey {
  RandomStream random;
  uint64_t group = 0;  // its number among those of all samples
};
inline GroupKey KeyOfGroup(const RandomStream& random, int64_t sample, const CodeLayout& layout,
                           const GroupPlace& place) {
  return {random, static_cast<uint64_t>(sample * layout.groups + place.number)};
}

// `count` is 1..group_size. `metadata` has MetadataBytes(codec) bytes, and `payload` has
// PayloadBytes(codec, count) bytes. Encode writes all of them. Several threads call the functions
// at once, so that they may depend on their operands alone.
struct GroupCode {
  void (*encode)(const Codec& codec, const GroupKey& key, const float* x, int64_t count, uint8_t* metadata,
                 uint8_t* payload);
  void (*decode)(const Codec& codec, const GroupKey& key, const uint8_t* metadata, const uint8_t* payload,
                 int64_t count, float* x);
};

}  // namespace act
