// The operators Compress, Decompress and Fused. Fused is the loop that finally contains the other
// two and all elementwise operators.
#pragma once

#include "runtime/codec/codec_row.h"
#include "runtime/plan/graph.h"

namespace act {

// The attributes of a Compress or Decompress node: those of its codec, which CodecOf reads
// (runtime/codec/codec_row.h), and the stream of its random numbers.
Attributes CodecAttributes(const Codec& codec, int64_t stream);

// Does the Decompress node compute only whether the value is positive (attribute `as` = "mask")?
bool DecodesMask(const Node& node);

}  // namespace act
