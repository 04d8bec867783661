// A pass rewrites a graph. One pass, one file; pass_table.h is the list, in order, with the reason
// for each.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

#include "compiler/autodiff/append_updates.h"
#include "compiler/ir/marks.h"
#include "compiler/policy/policy.h"
#include "runtime/plan/graph.h"
#include "runtime/plan/plan.h"

namespace act {

// What passes share beside the graph. The loss is the graph's first output. What is known of single
// values is in `marks` and nowhere else, so that it goes wherever they go.
struct PassContext {
  // --- What the model says.
  // The graph has its own backward pass, and its outputs after the loss are the gradients of the
  // trained parameters, in the order of their marks.
  bool own_backward = false;

  // --- What the user asked for.
  UpdateOptions updates;        // the optimizer, and how gradients become updates
  Policy policy;                // the level: what is stored, and in which form
  int64_t workspace_limit = 0;  // bytes of scratch space a node; 0: no limit

  // --- What the search for re-runs decided (passes/storage/choose_reruns.h).
  // What is re-run from anchors has at most so many elements a sample: what a re-run brings back
  // lies in memory at full size. 0: nothing is re-run. Beside it, policy.rerun_spacing.
  int64_t rerun_elements = 0;

  // --- What passes found.
  // What crosses to the backward pass, filled in by compress. The value that is stored for edges[i]
  // has i among its marks; whoever runs passes brings `stored` up to date after each.
  std::vector<SavedEdge> edges;
  // Of values: what trains, what is stored for which edge, what storage passes note.
  Marks marks;
  int32_t next_stream = 0;  // of random numbers: dropout and stochastic rounding each take one
  // Of all codes with levels, by the prior of mix-levels: comparable between steps of the same
  // model.
  double expected_variance = 0;
  int64_t least_saved_bytes = 0;  // under Policy::saved_limit: with all codes in their fewest levels
};

// A pass over the nodes, and one over a step whose order is final and whose values have their
// storage. Errors are those that a user can cause.
using PassFunction = llvm::Error (*)(Graph&, PassContext&);
using StepPassFunction = llvm::Error (*)(StepGraph&, PassContext&);

}  // namespace act
