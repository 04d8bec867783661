// The operators Compress, Decompress and Fused. Fused is the loop that finally contains the other
// two and all elementwise operators.
#pragma once

#include "runtime/plan/graph.h"

namespace act {

// The codec in a Compress or Decompress node's attributes: `kind` (mask, uniform, index, sign,
// zero, fp16, bf16, fp8e4m3, fp8e5m2), `bits` and `group_size`. Codecs with levels add `levels`,
// `below` (sign), `rounding` (stochastic, dither, nearest), `metadata` (pair if left out, log_pair,
// single, log_single) and `spacing` (even if left out, fitted). A plugin adds its name in `plugin`,
// and `version`, `metadata_bytes` and `group_bytes`.
Codec CodecOf(const Attributes& attrs);
Attributes CodecAttributes(const Codec& codec, int64_t stream);

// Does the Decompress node compute only whether the value is positive (attribute `as` = "mask")?
bool DecodesMask(const Node& node);

}  // namespace act
