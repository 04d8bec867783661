// The forms that a code may take beside its own, and how much worse or better each is: what an allocator
// (allocate_codecs.h) chooses from.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/codec/codec.h"

namespace act {

// What the side of a sign code that the ReLU cuts off adds to the gradient's variance, beside the other side
// at the same step: the gradient there is 0, so only the terms of the normalization that are means over all
// elements read it. Fits codes of 2+2 to 12+4 levels within 5 % (measured on six layers of convolution,
// BatchNorm and ReLU).
inline constexpr double kShareBelow = 1. / 200;

// What a code adds to the gradient's variance, up to a factor that depends on the tensor and the rounding but
// not on the code's form: the square of the step between levels, relative to the range of 256 elements.
// 1 / (K - 1)^2 of K levels (kernels/math/level_code.h); of a sign code that of the levels above 0, and a
// little of those below. Smaller groups have smaller ranges, as those of normal numbers are; scales of 8-bit
// logarithms are rounded up more, levels fitted to a normal distribution make less
// (runtime/codec/error_model.h).
double RelativeError(const Codec& codec, double share_below = kShareBelow);

// The same kind of code with other numbers of levels, 2 to 256, as far as CheckCodec allows them; of a sign
// code as many of them below zero as make the relative error least. Empty for codes without levels.
std::vector<Codec> LevelChoices(const Codec& codec, double share_below = kShareBelow);

// These, in groups of 64 elements up to the codec's own, with scales in 16 or 8 bits, and, where what is
// coded is one side of a normal distribution (kSign, kZero), fitted levels. Codes without subtractive dither
// are another system's and keep their form.
std::vector<Codec> FormChoices(const Codec& codec, double share_below = kShareBelow);

}  // namespace act
