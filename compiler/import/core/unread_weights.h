// Weights that an import moved out of the model file, and that nothing reads in the end.
#pragma once

#include <map>
#include <string>

#include "onnx/onnx-ml.pb.h"
#include "runtime/plan/graph.h"

namespace act::onnx_import {

// The data of the graph's parameters and buffers, by name.
std::map<std::string, HostTensor> StoredWeights(const Graph& graph);

// Gives the data back to initializers that have none left and are no values of the graph any more: those of a
// branch that is not taken, say. No plan has it, but the model that is exported after training needs it.
void ReturnUnreadWeights(onnx::GraphProto& model, const std::map<std::string, HostTensor>& weights,
                         const Graph& graph);

}  // namespace act::onnx_import
