// What a user may say of the import of a model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/dim.h"

namespace act {

struct ImportOptions {
  std::map<std::string, Dim> dims;  // --dim: extents of symbolic axes; N: the axis is the batch
  std::optional<int64_t> batch;     // --batch, if it is given: a model with a fixed batch accepts no other
  std::string loss;                 // --loss (append_loss.h); empty: in the model
  std::string loss_output;          // --loss-output; empty: the only scalar float output
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

}  // namespace act
