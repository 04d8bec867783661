// act::Compress and act::Decompress, and the fused loop that they, and all elementwise operators, end up in.
#pragma once

#include "runtime/plan/graph.h"

namespace act {

// The codec in a Compress or Decompress node's attributes: `kind` (mask, uniform, index), `bits`,
// `group_size`.
Codec CodecOf(const Attributes& attrs);
Attributes CodecAttributes(const Codec& codec, int64_t stream);

}  // namespace act
