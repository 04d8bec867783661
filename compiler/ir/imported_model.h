// What an importer hands to the passes: a graph of our own operators, and what the model says of its training.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// The optimizer that a model brings along.
struct ModelOptimizer {
  std::string name;                     // of --optimizer
  std::map<std::string, double> hyper;  // hyperparameters that it fixes, by flag: "beta1", "weight-decay"
  double clip_norm = 0;                 // 0: gradients are not clipped
};

struct ImportResult {
  // outputs: the loss; with own_backward then the gradients of `trainable`, in that order; with
  // keep_outputs those of the model.
  Graph graph;
  std::optional<ModelOptimizer> optimizer;      // of a training graph or of training_info, if there is one
  bool own_backward = false;                    // a training graph with a backward pass of its own
  ValueId loss = kNoValue;                      // kNoValue with keep_outputs
  std::vector<ValueId> trainable;               // parameters that are not frozen, in order of first use
  std::string model_name;                       // file name without folders
  bool fixed_batch = false;                     // no axis of the model varies with N
  int64_t batch = 1;                            // of a fixed batch: extent of the first input's leading axis
  ValueId logits = kNoValue, label = kNoValue;  // inputs of the cross entropy ([..,C], [..]), for accuracy
  HostTensor
      skeleton;  // the model without the weights that are in `graph`: what ExportTrainedOnnx fills again
  int onnx_nodes = 0;  // nodes in the file, functions expanded
};

}  // namespace act
