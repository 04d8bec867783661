// Training graphs of ONNX Runtime: one file with the forward pass, the backward pass and the
// accumulation of the gradients (docs/onnx_import.md). Parameters are inputs; their initial values
// come from a checkpoint beside it.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/core/import_options.h"
#include "compiler/import/core/needed_nodes.h"

namespace act::onnx_import {

struct TrainingGraph {
  enum class Role { kParameter, kStatistic, kAccumulation };
  struct Gradient {
    std::string parameter, gradient;  // names of values
  };
  std::string loss;                   // the first output
  std::vector<Gradient> gradients;    // of the parameters that train, in the order of the accumulators
  std::map<std::string, Role> roles;  // of inputs; those that have none are data
};

// Nullopt where the model accumulates no gradients: then it is a forward graph. Errors:
// accumulators that do not fit the graph's inputs.
llvm::Expected<std::optional<TrainingGraph>> FindTrainingGraph(const onnx::GraphProto& graph);

// Nodes in the order of execution, and on which side of the loss each runs. Forward nodes are those
// that the loss needs. Of the rest, backward nodes depend on the gradient of the loss, and derived
// nodes do not.
struct Sides {
  Nodes nodes;
  std::vector<Phase> phases;
};
llvm::Expected<Sides> SplitAtLoss(const FlatNodes& flat, const TrainingGraph& training);

// Parameters and running statistics with the values of --checkpoint or of the file `checkpoint`
// beside the model. Adds the frozen parameters to the roles; only a checkpoint distinguishes them
// from data.
llvm::Error DefineParameters(Importer& importer, const ModelFile& file, TrainingGraph& training,
                             const ImportOptions& options);

// Makes the gradients outputs of the graph. Returns the parameters of `trainable` that have a
// gradient, in that order.
llvm::Expected<std::vector<ValueId>> AddGradientOutputs(Importer& importer, const TrainingGraph& training,
                                                        const std::vector<ValueId>& trainable);

}  // namespace act::onnx_import
