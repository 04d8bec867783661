// Every cast in the table of codecs. Tests that iterate over casts thus cover a new one.
#pragma once

#include <vector>

#include "kernels/math/small_float.h"

namespace act {

inline std::vector<CodecKind> AllCasts() {
  std::vector<CodecKind> casts;
  for (int kind = 0; kind <= static_cast<int>(kLastCodecKind); ++kind)
    if (IsCast(static_cast<CodecKind>(kind))) casts.push_back(static_cast<CodecKind>(kind));
  return casts;
}

}  // namespace act
