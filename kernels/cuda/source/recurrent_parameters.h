// The parameters of the kernels in recurrent.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/divisor.h"

namespace act::cuda {

// Of one step. Tensors are named as in docs/runtime_ops.md; null where an operator has none.
struct RecurrentParameters {
  // Forward: pre-activations; backward: slopes. [N,T,G H]
  const float* gates = nullptr;
  const float* products = nullptr;  // forward: of the state and the weights, [N,G H]; null: the state is 0
  const float* before = nullptr;    // the state h before the step, rows of `before_row`; null: 0
  int64_t before_row = 0;
  const float* bias = nullptr;  // of Gru's candidate, [H]
  const float* c0 = nullptr;    // initial c, or the gradient of the last one; null: 0
  const float *c_by_h = nullptr, *forget = nullptr, *reset = nullptr, *update = nullptr, *dy = nullptr;

  float *y = nullptr, *slopes = nullptr, *dx = nullptr, *dq = nullptr;
  float *to_c_by_h = nullptr, *to_forget = nullptr, *to_reset = nullptr, *to_update = nullptr;
  // [N,H], from step to step: c, or the gradients of h and c.
  float *c = nullptr, *dh = nullptr, *dc = nullptr;

  int64_t steps = 0, time = 0;
  Divisor units;
  int32_t items = 0;   // N H
  bool first = false;  // c, dh and dc do not hold anything yet
  bool relu = false;
};

}  // namespace act::cuda
