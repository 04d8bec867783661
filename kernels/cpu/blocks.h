// Operations on whole tensors by all threads, a block at a time.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"

namespace act {

inline constexpr int64_t kBlockBytes = int64_t{1} << 18;

inline void Clear(const TensorView& t) {
#pragma omp parallel for schedule(static) if (t.elements > kParallelElements)
  for (int64_t at = 0; at < t.bytes; at += kBlockBytes)
    std::memset(t.as<char>() + at, 0, static_cast<size_t>(std::min(kBlockBytes, t.bytes - at)));
}

// Both tensors have the same number of bytes.
inline void Copy(const TensorView& to, const TensorView& from) {
#pragma omp parallel for schedule(static) if (to.elements > kParallelElements)
  for (int64_t at = 0; at < to.bytes; at += kBlockBytes)
    std::memcpy(to.as<char>() + at, from.as<char>() + at,
                static_cast<size_t>(std::min(kBlockBytes, to.bytes - at)));
}

}  // namespace act
