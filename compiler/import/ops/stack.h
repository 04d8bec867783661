// Tensors that become one: those of a sequence, and what the iterations of a loop make.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// Defines output i as the parts, joined along `axis`; or, if `axis_is_new`, stacked along an axis that the
// parts do not have. The axis is one of the result, and may count from the end. Parts that are known make a
// known result. Errors: no part, parts that do not fit each other.
llvm::Error SetJoined(const NodeContext& c, size_t i, std::vector<Operand> parts, int64_t axis,
                      bool axis_is_new);

}  // namespace act::onnx_import
