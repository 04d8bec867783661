// A plan whose lossy codes can be switched off one by one, for measuring the gradient's variance.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace act {

// A code that does not decode to exactly what was encoded.
struct SwitchableCode {
  size_t edge = 0;  // position in Plan::edges
  size_t node = 0;  // position of the node that replaces the exact values by the decoded ones
  Codec codec;
  Dim elements;  // of the coded tensor
};

struct SwitchablePlan {
  // Has no graph for evaluation. After the saved activations, Plan::edges lists what the backward
  // pass encodes for itself (a re-run's results).
  Plan plan;
  size_t saved_edges = 0;  // the first so many of Plan::edges
  // products whose operands the plan lets kernels round; here they do not
  size_t rounded_products = 0;
  std::vector<SwitchableCode> codes;  // in the order in which the step makes them
};

// Rewrites the training graph of `plan`. After each node that makes a lossy code
//   - its unrounded values are stored as well, as float32,
//   - a new node decodes the code over them,
// and the backward pass reads these values instead of the code. If that node is disabled
// (BoundGraph::Enable), the backward pass has the exact values. If it runs, the values equal what
// the plan itself would decode, to the last bit.
// Masks are still read from the code, which holds them exactly. Nothing is swapped, and no product
// rounds its operands, so that only the effect of codes is measured. All else is as in `plan`, in
// the same order; only the arena is larger, by 4 bytes for each coded element. Errors: a lossy code
// that something other than a fused loop makes or reads; an edge that operators of the graph round
// (preset blpa).
llvm::Expected<SwitchablePlan> MakeCodesSwitchable(const Plan& plan);

}  // namespace act
