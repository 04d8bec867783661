// Every cast that the table of codecs has: a new one is in all tests that go over casts.
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
