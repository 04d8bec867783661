// ONNX in: a training or inference model becomes a graph of our own operators
// (docs/onnx_import.md).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

struct ImportOptions {
  std::map<std::string, int64_t> dims;  // --dim: extents of symbolic axes other than the batch
  std::string loss;         // --loss: cross-entropy, mse, l1, smooth-l1, bce-with-logits; empty: in the model
  std::string loss_output;  // --loss-output; empty: the only scalar float output
  std::vector<std::string> freeze;  // --freeze: globs (* and ?) over parameter names
  bool freeze_bn = false;           // --freeze-bn: BatchNormalization keeps its stored statistics
  bool init_he = false;             // --init=he: initial weights where the external data file is missing
  uint64_t seed = 0;                // of --init=he
  std::string checkpoint;           // --checkpoint: initial parameters of a training graph; empty: beside it
  bool own_optimizer = true;        // look for the optimizer that the model brings along
  std::string
      optimizer_model;  // --optimizer-model: where; empty: optimizer_model.onnx beside it, if that is there
  bool report_only = false;   // weights are not needed: data of a missing file stays null
  bool keep_outputs = false;  // no loss: the graph's outputs are the model's, in their order
};

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

// Reads the model at `path` and imports the nodes that its loss needs. Every value gets a type
// whose dims are polynomials in N. Weights are mapped or moved, not copied. Errors name the file
// and the node, tensor or flag.
llvm::Expected<ImportResult> ImportOnnx(const std::string& path, const ImportOptions& options);

}  // namespace act
