// Prefetches for a walk over tiles. A tile is a page, where the processor's own prefetching ends.
// So each tile prefetches the memory of the next tile, which arrives during the arithmetic.
#pragma once

#include <cstdint>

#include "runtime/codec/codec.h"

namespace act {

// Prefetches the same number of bytes after those at `present`. A prefetch is not an access, so the
// address need not be valid. Therefore there is no arithmetic on the pointer.
template <bool kToWrite>
inline void AskForNext(const void* present, int64_t bytes) {
  constexpr uintptr_t kLine = 64;
  const auto next = reinterpret_cast<uintptr_t>(present) + static_cast<uintptr_t>(bytes);
  for (uintptr_t at = next; at < next + static_cast<uintptr_t>(bytes); at += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(at), kToWrite);  // NOLINT(performance-no-int-to-ptr)
}
// The first lines, from which the processor's own prefetching goes on. All of them at once would keep the present
// tile's operands waiting.
template <bool kToWrite>
inline void AskForNextTile(const float* tile, int64_t count) {
  constexpr uintptr_t kLine = 64, kLines = 4;
  const auto next = reinterpret_cast<uintptr_t>(tile) + static_cast<uintptr_t>(count) * sizeof(float);
  for (uintptr_t line = 0; line < kLines; ++line)
    __builtin_prefetch(reinterpret_cast<const void*>(next + line * kLine),
                       kToWrite);  // NOLINT(performance-no-int-to-ptr)
}

// Prefetches a sample's metadata and payload that follow those of elements first .. first + count
// - 1.
template <bool kToWrite>
inline void AskForNextCodes(const Codec& codec, const CodeLayout& layout, const uint8_t* code, int64_t first,
                            int64_t count) {
  const int64_t group = first / codec.group_size, groups = count / codec.group_size;
  AskForNext<kToWrite>(code + group * layout.metadata_bytes, groups * layout.metadata_bytes);
  AskForNext<kToWrite>(code + layout.payload_offset + group * layout.group_bytes,
                       groups * layout.group_bytes);
}

}  // namespace act
