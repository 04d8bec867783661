// The starts of the dither sequences of a sample's groups (kernels/math/rounding.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/code_tile.h"
#include "kernels/math/rounding.h"

namespace act {

// Eight groups share a random call, and a row of 16 calls is drawn at once: a single call is a chain of multiplications
// for which the tile would have to wait. Codes without dither have starts of 0.
class DitherStarts {
 public:
  DitherStarts(const Codec& codec, DrawnStream& random, int64_t sample, int64_t groups)
      : dither_(codec.rounding == Rounding::kDither && codec.HasLevels()),
        random_(random),
        first_(static_cast<uint64_t>(sample) * static_cast<uint64_t>(groups)) {}
  uint32_t Of(int64_t group) {
    if (!dither_) return 0;
    const uint64_t number = first_ + static_cast<uint64_t>(group), call = number / 8;
    if (call / kRandomLanes * kRandomLanes != random_.first_call) Draw(call / kRandomLanes * kRandomLanes);
    return DitherStart(random_.words[kRandomLanes * WordOfStart(number) + call % kRandomLanes], number);
  }

 private:
  void Draw(uint64_t first_call) {
    RandomRows(random_.stream, first_call, 1, random_.words);
    random_.first_call = first_call;
  }

  const bool dither_;
  DrawnStream& random_;
  const uint64_t first_;
};

}  // namespace act
