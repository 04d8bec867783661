// The alternative forms of a code, and their relative errors. An allocator (allocate_codecs.h)
// chooses among them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/codec/codec.h"

namespace act {

// A sign code's side that the ReLU cuts off adds this fraction of what the other side adds to the
// gradient's variance at the same step. The gradient there is 0, so only the terms of the
// normalization that are means over all elements read it. Fits codes of 2+2 to 12+4 levels within 5
// % (measured on six layers of convolution, BatchNorm and ReLU).
inline constexpr double kShareBelow = 1. / 200;

// What a code adds to the gradient's variance, up to a factor that depends on the tensor and the
// rounding but not on the code's form. It is the square of the step between levels, relative to the
// range of 256 elements: 1 / (K - 1)^2 for K levels (kernels/math/level_code.h). For a sign code it
// is that of the levels above 0, plus a little for those below. Smaller groups have smaller ranges,
// as for normally distributed numbers. Scales stored as 8-bit logarithms are rounded up more, which
// increases it. Levels fitted to a normal distribution decrease it (runtime/codec/error_model.h).
double RelativeError(const Codec& codec, double share_below = kShareBelow);

// The same kind of code with other numbers of levels, 2 to 256, as far as CheckCodec allows them.
// For a sign code, the number of levels below zero is the one with the least relative error. Empty
// for codes without levels.
std::vector<Codec> LevelChoices(const Codec& codec, double share_below = kShareBelow);

// LevelChoices, in groups of 64 elements up to the codec's own, with scales of 16 or 8 bits. Codes
// of one side of a normal distribution (kSign, kZero) may also have fitted levels. Codes without
// subtractive dither belong to another system's preset and keep their form.
// `normalized`: the numbers' mean square is about 1. Only then, or if `codec` has them, scales may have
// 8 bits: they are up to 16 times too large above 7.7, where the variance is 256 times as large.
std::vector<Codec> FormChoices(const Codec& codec, double share_below = kShareBelow, bool normalized = false);

}  // namespace act
