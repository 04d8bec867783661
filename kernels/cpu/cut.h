// An extent that is worked on a part at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/base/dim.h"

namespace act {

// `whole` cut into parts of at most `length`. The last one may be shorter.
struct Cut {
  int64_t whole = 0, length = 0;

  int64_t Count() const { return CeilDiv(whole, length); }
  // Of the part that begins at `first`.
  int64_t LengthAt(int64_t first) const { return std::min(length, whole - first); }
  // There are at most two lengths.
  std::vector<int64_t> Lengths() const {
    std::vector<int64_t> lengths{LengthAt(0)};
    if (whole % length != 0 && whole > length) lengths.push_back(whole % length);
    return lengths;
  }
};

}  // namespace act
