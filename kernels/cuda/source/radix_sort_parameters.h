#pragma once

#include <cstdint>

namespace act::cuda {

inline constexpr int kSortThreads = 256, kScanThreads = 1024;
inline constexpr int kSortItems = 2048;  // of a block
inline constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;

// A pass of a sort by digits: pairs are ordered by one digit of their keys, and otherwise stay in their
// order.
struct SortParameters {
  const uint32_t *keys = nullptr, *values = nullptr;
  uint32_t *keys_to = nullptr, *values_to = nullptr;
  uint32_t* counts = nullptr;  // [digit][block]
  int32_t count = 0, blocks = 0;
  int32_t shift = 0;  // of the digit, in bits
};

}  // namespace act::cuda
