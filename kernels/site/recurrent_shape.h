// A recurrent node at one batch size.
#pragma once

#include <optional>
#include <string>

#include "kernels/site/optional_input.h"
#include "runtime/executor/kernel.h"

namespace act {

struct RecurrentShape {
  int64_t batch = 0, steps = 0, units = 0;  // N, T, H
  int64_t gates = 1;                        // pre-activations of a unit
  bool reverse = false;
  bool relu = false;  // Rnn: ReLU instead of tanh

  int64_t Width() const { return gates * units; }  // of a row of pre-activations
  // Time of the s-th step of the forward pass.
  int64_t Time(int64_t s) const { return reverse ? steps - 1 - s : s; }
};

// Nullopt, with the reason in *why, if a tensor does not fit the operator's
// signature (runtime/plan/recurrent_signature.h).
std::optional<RecurrentShape> RecurrentShapeOf(const KernelSite& site, std::string* why);

}  // namespace act
