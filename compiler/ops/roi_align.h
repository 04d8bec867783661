// Pooling of regions of images that are data (ONNX's RoiAlign): roi_align.cc.
#pragma once

#include <vector>

#include "compiler/ops/op_table.h"

namespace act {

void AddRoiAlignOps(std::vector<OpDef>& ops);

}  // namespace act
