// ONNX's own training information: a TrainingInfoProto in the model's file says how it is trained
// (docs/onnx_import.md). Its Gradient nodes name the loss and the parameters, and become our
// backward pass; its optimizer becomes one of ours.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <set>
#include <string>

#include "compiler/import/file/model_file.h"
#include "compiler/ir/imported_model.h"

namespace act::onnx_import {

struct TrainingInfo {
  std::string loss;                   // y of the Gradient nodes
  std::set<std::string> parameters;   // initializers that the optimizer updates
  std::set<std::string> set_by_flag;  // inputs of the algorithm that are no data: the rate and the count
  std::set<std::string> names;        // of everything that the algorithm added to the graph
  ModelOptimizer optimizer;
};

// Appends the algorithm to the model's graph, with the initial values that its initialization
// gives; nullopt where the model has no algorithm. Errors: several algorithms; one whose updates
// are not those of a gradient by one optimizer of ours, each with its node or binding.
llvm::Expected<std::optional<TrainingInfo>> ReadTrainingInfo(ModelFile& file, uint64_t seed);

// Removes the algorithm and the training information again, which leaves the model for inference.
void DropAlgorithm(onnx::ModelProto& model, const TrainingInfo& info);

// The loss, parameters and optimizer of an algorithm that has been appended to `graph`; `path` is
// the model's, whose folder holds external data.
llvm::Expected<TrainingInfo> ReadAlgorithm(const onnx::GraphProto& graph,
                                           const onnx::TrainingInfoProto& proto, const std::string& path);

// Gives initializers of `graph` the values that the initialization computes for them. Errors: a
// binding of something that is not an initializer, a result that is neither random numbers nor a
// constant.
llvm::Error Initialize(onnx::GraphProto& graph, const onnx::TrainingInfoProto& info, uint64_t seed);

}  // namespace act::onnx_import
