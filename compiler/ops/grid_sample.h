// Sampling at coordinates that are data, a part of the spatial family.
#pragma once

#include <vector>

#include "compiler/ops/op_table.h"

namespace act {

void AddGridSampleOps(std::vector<OpDef>& ops);

}  // namespace act
