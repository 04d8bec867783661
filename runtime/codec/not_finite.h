// Finds NaN in a code from its bytes, without decoding.
#pragma once

#include <cstdint>

#include "runtime/codec/codec.h"

namespace act {

// The number of groups in one sample's code, of `elements` elements, that decode to NaN: something
// in them was NaN, infinite or too large for the code (docs/codecs.md). For casts, the number of
// elements that are NaN or infinite. 0 for codes that cannot hold such numbers (masks, indices),
// and for plugins, whose bytes have no known meaning here.
int64_t CountNotFinite(const Codec& codec, int64_t elements, const uint8_t* code);

}  // namespace act
