// Operations that follow a decode in the same pass over its tile.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/fused_loop.h"

namespace act {

// Merges `step`, an instruction about to be added to loop.steps, into the step that decodes its
// operand, and moves that step to the end. `step` may be the magnitude of the decoded number, its
// product or sum with another register, or its product with the mask of the same code. Otherwise,
// and if another step reads the number in between, it returns false and changes nothing. readers[r]
// is the number of instructions and results that read register r. `node` is the loop's node.
bool DecodeInto(const Step& step, const Node& node, const std::vector<int32_t>& readers, FusedLoop& loop);

}  // namespace act
