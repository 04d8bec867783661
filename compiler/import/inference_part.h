// What --export-onnx writes of a training graph: its predictions, with the parameters as initializers.
#pragma once

#include "compiler/import/training/training_graph.h"

namespace act::onnx_import {

// Reduces the model to the forward pass up to the input of its cross entropy (of another loss: to the loss
// itself), in operators that run outside a training build. Parameters and running statistics become
// initializers without data, of the types in `graph`. `sides` must not be used any more: its nodes are gone.
void KeepInferencePart(onnx::GraphProto& model, const Sides& sides, const TrainingGraph& training,
                       const Graph& graph);

}  // namespace act::onnx_import
