// Codes of one sample by plain loops over runtime/codec/codec.h's layout: what every backend's
// codes must equal, byte by byte.
#pragma once

#include <cstdint>

#include "kernels/math/random.h"
#include "runtime/codec/codec.h"

namespace act {

// x: `elements` floats of sample number `sample`; code: LayoutOf(codec, elements).sample_bytes
// bytes. random is read where there are levels.
void EncodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const float* x, uint8_t* code);

// The inverse; x may not be what was encoded, but its expectation is (kNearest apart), or the
// element itself (kMask, kIndex). random: what encode had.
void DecodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const uint8_t* code, float* x);

// x = 1 where the element is greater than 0 (kZero: not 0), else 0. Codecs with HoldsMask().
void DecodeMaskReference(const Codec& codec, int64_t elements, const uint8_t* code, float* x);

}  // namespace act
