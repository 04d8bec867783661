// act::Compress and act::Decompress, and the fused loop that they, and all elementwise operators, end up in.
#pragma once

#include "runtime/plan/graph.h"

namespace act {

// The codec in a Compress or Decompress node's attributes: `kind` (mask, uniform, index, sign, zero), `bits`,
// `group_size`, and where there are levels `levels`, `below` (sign) and `rounding` (stochastic, dither, nearest).
Codec CodecOf(const Attributes& attrs);
Attributes CodecAttributes(const Codec& codec, int64_t stream);

// A Decompress node makes not the value but whether it is positive (attribute `as` = "mask").
bool DecodesMask(const Node& node);

}  // namespace act
