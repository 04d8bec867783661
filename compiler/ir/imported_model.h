// What an importer hands to the passes: a graph of our own operators, and what the model says about
// its training.
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
  std::string name;  // a name that --optimizer takes
  // The hyperparameters that it fixes, by flag: "beta1", "weight-decay".
  std::map<std::string, double> hyper;
  double clip_norm = 0;  // 0: gradients are not clipped
};

struct ImportResult {
  // Its outputs are the loss and, with own_backward, then the gradients of `trainable` in that
  // order. With keep_outputs they are the outputs of the model.
  Graph graph;
  // Of a training graph or of training_info, if there is one.
  std::optional<ModelOptimizer> optimizer;
  bool own_backward = false;       // a training graph with a backward pass of its own
  ValueId loss = kNoValue;         // kNoValue with keep_outputs
  std::vector<ValueId> trainable;  // parameters that are not frozen, in order of first use
  std::string model_name;          // file name without folders
  bool fixed_batch = false;        // no axis of the model varies with N
  int64_t batch = 1;               // of a fixed batch: the leading extent of the first input
  // The inputs of the cross entropy ([..,C] and [..]), from which accuracy is computed.
  ValueId logits = kNoValue, label = kNoValue;
  // The model without the weights that are in `graph`. ExportTrainedOnnx puts weights back into it.
  HostTensor skeleton;
  std::vector<std::string> warnings;  // what the importer decided and may surprise
  int onnx_nodes = 0;                 // nodes in the file, functions expanded
};

}  // namespace act
