// Stored numbers by which control flow is decided.
#pragma once

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// Single floats that the condition of an If, or the number of a Loop's iterations, follows from become
// Constant nodes. No gradient reaches them, and control flow must be known when compiling: exporters
// compare a loop's counter with a stored length in float. In files of exporters that write numbers of the
// arithmetic as initializers, so do floats and short lists of them from which an operand follows that must
// be known, such as the ends of a Slice. What a tensor's extents follow from is not what its numbers follow
// from. To be called after HoistInitializers.
void FixControlConstants(onnx::ModelProto& model);

}  // namespace act::onnx_import
