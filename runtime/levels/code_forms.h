// The forms that a code may take in place of its own, and how much worse or better each is. An
// allocator (allocate_codecs.h) chooses from them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/codec/codec.h"

namespace act {

// The variance that the side of a sign code cut off by the ReLU adds to the gradient's, relative to
// that of the other side at the same step. The gradient there is 0, so only those terms of the
// normalization read it that are means over all elements. Fits codes of 2+2 to 12+4 levels within 5
// % (measured on six layers of convolution, BatchNorm and ReLU).
inline constexpr double kShareBelow = 1. / 200;

// What a code adds to the gradient's variance, up to a factor that depends on the tensor and the
// rounding but not on the code's form. It is the square of the step between levels, relative to the
// range of 256 elements: 1 / (K - 1)^2 for K levels (kernels/math/level_code.h). For a sign code it
// is that of the levels above 0, and a little of those below. Smaller groups have smaller ranges,
// as groups of normal numbers do. Scales of 8-bit logarithms are rounded up more. Levels fitted to
// a normal distribution make less error (runtime/codec/error_model.h).
double RelativeError(const Codec& codec, double share_below = kShareBelow);

// The same kind of code with other numbers of levels, 2 to 256, as far as CheckCodec allows them. A
// sign code gets the number of levels below zero that makes the relative error least. Empty for
// codes without levels.
std::vector<Codec> LevelChoices(const Codec& codec, double share_below = kShareBelow);

// LevelChoices in groups of 64 elements up to the codec's own, with scales in 16 or 8 bits. Fitted
// levels are among them where the coded numbers are one side of a normal distribution (kSign,
// kZero). Codes without subtractive dither belong to another system and keep their form.
std::vector<Codec> FormChoices(const Codec& codec, double share_below = kShareBelow);

}  // namespace act
