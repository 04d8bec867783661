// A recurrent layer (LSTM, GRU, RNN) as ONNX describes it, and its directions as values of our
// graph.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// An activation function by its ONNX name.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

struct RecurrentLayer {
  std::string op;     // "LSTM", "GRU", "RNN"
  int64_t gates = 1;  // LSTM: i, o, f, c; GRU: z, r, h
  int64_t steps = 0, units = 0;
  Dim batch;
  std::vector<bool> reverse;            // one entry a direction
  std::vector<Activation> activations;  // those of each direction, one direction after the other
  std::optional<double> clip;
  bool input_forget = false, linear_before_reset = false;

  size_t Directions() const { return reverse.size(); }
  size_t ActivationsEach() const { return activations.size() / Directions(); }
};

// The operands of one direction, batch-major.
struct RecurrentDirection {
  ValueId x = kNoValue;        // [N,T,G H]: what the input adds to the pre-activations, with the biases
  ValueId weights = kNoValue;  // [G H,H]
  ValueId candidate_bias = kNoValue;   // [H] or none: GRU with linear_before_reset, inside the reset product
  ValueId h = kNoValue, c = kNoValue;  // initial states [N,H]; none: zero
  ValueId peepholes = kNoValue;        // [3 H] or none
  ValueId lengths = kNoValue;          // f32 [N,1]: steps of each sample; none: all
  bool reverse = false;
  const Activation* activations = nullptr;
};

struct RecurrentResult {
  ValueId y = kNoValue;                // [N,T,H]
  ValueId h = kNoValue, c = kNoValue;  // states after the last step [N,H]; c: LSTM only
};

// Writes the direction out step by step. Handles every variant, at the price of some ten nodes per
// step.
llvm::Expected<RecurrentResult> EmitSteps(NodeContext& c, const RecurrentLayer& layer,
                                          const RecurrentDirection& d);

}  // namespace act::onnx_import
