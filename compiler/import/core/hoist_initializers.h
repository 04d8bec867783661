// Initializers of graphs inside nodes (branches of If, bodies of Loop and Scan) become the model's own.
#pragma once

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// Moves them to the graph's initializers, where they are parameters or constants like every other and one
// weight serves all iterations. A name that something else in the model has, too, gets the name of the node
// that has the inner graph before it. What is an input of its inner graph, too, stays.
void HoistInitializers(onnx::GraphProto& graph);

}  // namespace act::onnx_import
