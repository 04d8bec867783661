// What follows a decode in the same pass over its tile.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/fused_loop.h"

namespace act {

// Makes `step`, an instruction about to be added to loop.steps, part of the step that decodes its operand,
// and moves that to the end: the magnitude of the decoded number, its product or sum with another register,
// or a product with the mask of the same code. False, with nothing changed, where it is none of these or
// another reads the number between. readers[r]: instructions and results that read register r. node: whose
// loop it is.
bool DecodeInto(const Step& step, const Node& node, const std::vector<int32_t>& readers, FusedLoop& loop);

}  // namespace act
