// Updates whose optimizer state lives in bfloat16 or in 8 bits, with the reference's bits.
#pragma once

#include <cstdint>

#include "kernels/site/quantized_shape.h"
#include "runtime/executor/kernel.h"

namespace act {

// Updates blocks of 256 elements, first .. last - 1. `gradient` begins with the block `first`.
void UpdateQuantizedBlocks(const KernelArgs& args, const QuantizedShape& shape, const float* gradient,
                           int64_t first, int64_t last, int threads);

}  // namespace act
