// Encodes numbers that do not change while a plan runs: frozen weights (passes/precision/code_frozen.cc). Kernels
// encode what a step makes. A code of this encoder is that of a kernel for numbers that were clamped to a range of less
// error, so kernels decode it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/codec/codec.h"

namespace act {

// Whether EncodeNumbers knows the codec: bfloat16, and kUniform with levels at even distances, a power of two of them,
// rounded to nearest. Their codes depend on the numbers alone, so they are the same whenever they are made.
bool EncodesNumbers(const Codec& codec);

// The code of a tensor of `count` float32 without a batch axis, which is one sample. `numbers` may be unaligned;
// `code` has LayoutOf(codec, count).sample_bytes, all of which are written. A group with a number that is not finite
// decodes to NaN.
void EncodeNumbers(const Codec& codec, const std::byte* numbers, int64_t count, std::span<std::byte> code);

}  // namespace act
