// Blocks of a row that is float32 or bfloat16, as floats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/bfloat16_tile.h"

namespace act {

// to[i] = from[i]
inline void CopyFloats(const float* from, int64_t count, float* to) { std::copy_n(from, count, to); }
inline void CopyFloats(const BFloat16* from, int64_t count, float* to) {
  WidenTile(static_cast<size_t>(count), from, to);
}

// Where a kernel computes a block of its result: in the result itself if that is float32, else in a
// buffer, which is rounded once.
template <class T>
class FloatBlock {
 public:
  static constexpr bool kInPlace = std::is_same_v<T, float>;
  static constexpr int64_t kMost = 256;  // elements of a buffer: 1 KiB
  // How many elements of a row are one block.
  static int64_t Length(int64_t row) { return kInPlace ? std::max<int64_t>(row, 1) : kMost; }

  // Elements of the result from `to` on. At most kMost if they are bfloat16.
  explicit FloatBlock(T* to) : to_(to) {}
  float* data() {
    if constexpr (kInPlace)
      return to_;
    else
      return buffer_;
  }
  void Store(int64_t count) {
    if constexpr (!kInPlace) RoundTile(static_cast<size_t>(count), buffer_, to_);
  }

 private:
  T* to_;
  float buffer_[kInPlace ? 1 : kMost];
};

}  // namespace act
