// Where a code holds NaN: seen in its bytes, without decoding them.
#pragma once

#include <cstdint>

#include "runtime/codec/codec.h"

namespace act {

// Groups of one sample's code, of `elements` elements, that decode to NaN: something in them was NaN,
// infinite or too large for the code (docs/codecs.md). Of casts: elements that are NaN or infinite. 0 for
// codes that hold no such numbers (masks, indices) or are not ours to read (plugins).
int64_t CountNotFinite(const Codec& codec, int64_t elements, const uint8_t* code);

}  // namespace act
