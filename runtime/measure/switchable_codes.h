// A plan whose lossy codes can be switched off one by one: what the variance of a gradient is measured with.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace act {

// A code that decodes to something else than what was encoded.
struct SwitchableCode {
  size_t edge = 0;  // position in Plan::edges
  size_t node = 0;  // position of the node that puts the decoded values in the place of the exact ones
  Codec codec;
  Dim elements;  // of the tensor that is coded
};

struct SwitchablePlan {
  // Without a graph for evaluation. Behind its saved activations, Plan::edges lists what the backward pass
  // encodes for itself (a re-run's results).
  Plan plan;
  size_t saved_edges = 0;             // of Plan::edges, at its beginning
  size_t rounded_products = 0;        // whose operands the plan lets kernels round; here they do not
  std::vector<SwitchableCode> codes;  // in the order in which the step makes them
};

// Rewrites the training graph of `plan`. Behind each node that makes a lossy code
//   - its unrounded values are stored as well, as float32,
//   - a node stands that decodes the code over them,
// and backward reads these values in the place of the code. Where the node is disabled (BoundGraph::Enable),
// backward has the exact values; where it runs, it has to the last bit what the plan itself would decode.
// Masks are still read from the code, which holds them exactly. Nothing is swapped, and no product
// rounds its operands: what is measured is what codes do. All else is as in `plan`, in the same order; only
// the arena is larger, by 4 bytes for each coded element. Errors: a lossy code that something else than a
// fused loop makes or reads; an edge that operators of the graph round (preset blpa).
llvm::Expected<SwitchablePlan> MakeCodesSwitchable(const Plan& plan);

}  // namespace act
