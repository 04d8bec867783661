// The codes of one sample, by plain loops over the layout in runtime/codec/codec.h. Every backend's
// codes must be equal to these, byte by byte.
#pragma once

#include <cstdint>

#include "kernels/math/random.h"
#include "runtime/codec/codec.h"

namespace act {

// x: `elements` floats of sample number `sample`. code: LayoutOf(codec, elements).sample_bytes
// bytes. `random` is used only by codes with levels.
void EncodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const float* x, uint8_t* code);

// The inverse. For kMask and kIndex, x is the encoded element. For other kinds its expectation is
// (not for kNearest). `random` must be the one used to encode.
void DecodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const uint8_t* code, float* x);

// x = 1 if the element is greater than 0 (kZero: not 0), else 0. For codecs with HoldsMask().
void DecodeMaskReference(const Codec& codec, int64_t elements, const uint8_t* code, float* x);

}  // namespace act
