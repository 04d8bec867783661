// The part of a training graph that --export-onnx writes: the predictions, with the parameters as
// initializers.
#pragma once

#include "compiler/import/training/training_graph.h"

namespace act::onnx_import {

// Reduces the model to its forward pass, written in operators that run outside a training build.
// The pass ends at the input of the cross entropy, or at the loss where that is another one.
// Parameters and running statistics become initializers without data, of the types in `graph`.
// `sides` must not be used afterwards: its nodes are gone.
void KeepInferencePart(onnx::GraphProto& model, const Sides& sides, const TrainingGraph& training,
                       const Graph& graph);

}  // namespace act::onnx_import
