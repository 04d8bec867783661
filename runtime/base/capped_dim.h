// A size that grows with the batch up to a limit. Scratch space is of this kind: more than a certain
// amount makes no kernel faster.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "runtime/base/dim.h"

namespace act {

// The smaller of size(N) and `most`, and never negative.
struct CappedDim {
  Dim size;
  int64_t most = kTooLarge;

  constexpr CappedDim() = default;
  constexpr CappedDim(int64_t fixed) : size(fixed) {}  // NOLINT: a plain size is a CappedDim,
  constexpr CappedDim(Dim s) : size(s) {}              // NOLINT: and so is one without a limit
  constexpr CappedDim(Dim s, int64_t limit) : size(s), most(limit) {}

  int64_t At(int64_t n) const { return std::clamp<int64_t>(size.At(n), 0, most); }
  bool operator==(const CappedDim&) const = default;
};

// For example "128", or "256N at most 4096".
inline std::string ToString(const CappedDim& dim) {
  return ToString(dim.size) + (dim.most < kTooLarge ? " at most " + std::to_string(dim.most) : "");
}

}  // namespace act
