// Prefetches for a walk over tiles. A tile is a page, where the processor's own prefetching ends.
// So each tile prefetches memory of the next one, which arrives during the arithmetic.
#pragma once

#include <cstdint>

#include "runtime/codec/codec.h"

namespace act {

// Prefetches the first `asked` bytes after the `bytes` at `present`. A prefetch is not an access, so the address need
// not be valid. Therefore there is no arithmetic on the pointer.
template <bool kToWrite>
inline void AskForNext(const void* present, int64_t bytes, int64_t asked) {
  constexpr uintptr_t kLine = 64;
  const auto next = reinterpret_cast<uintptr_t>(present) + static_cast<uintptr_t>(bytes);
  for (uintptr_t at = next; at < next + static_cast<uintptr_t>(asked); at += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(at), kToWrite);  // NOLINT(performance-no-int-to-ptr)
}
// Prefetches the first four lines of the next tile, after which the processor goes on by itself. All lines at once take
// longer than none (docs/measurements/kernels.md).
template <bool kToWrite>
inline void AskForNextTile(const float* tile, int64_t count) {
  AskForNext<kToWrite>(tile, count * int64_t{sizeof(float)}, 256);
}

// Prefetches a sample's metadata and payload that follow those of elements first .. first + count
// - 1.
template <bool kToWrite>
inline void AskForNextCodes(const Codec& codec, const CodeLayout& layout, const uint8_t* code, int64_t first,
                            int64_t count) {
  const int64_t group = first / codec.group_size, groups = count / codec.group_size;
  const auto ask = [group, groups](const uint8_t* first_group, int64_t bytes_each) {
    AskForNext<kToWrite>(first_group + group * bytes_each, groups * bytes_each, groups * bytes_each);
  };
  ask(code, layout.metadata_bytes);
  ask(code + layout.payload_offset, layout.group_bytes);
}

}  // namespace act
