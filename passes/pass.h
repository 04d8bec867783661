// A pass rewrites a graph. Each pass has a file of its own. pass_table.h lists the passes in order,
// with the reason for each.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "compiler/autodiff/append_updates.h"
#include "compiler/ir/marks.h"
#include "compiler/policy/policy.h"
#include "runtime/plan/graph.h"
#include "runtime/plan/plan.h"

namespace act {

// The state that passes share beside the graph. The loss is the graph's first output. Facts about
// single values are in `marks` and nowhere else, so that they move with the values.
struct PassContext {
  // --- What the model says.
  // The graph has its own backward pass, and its outputs after the loss are the gradients of the
  // trained parameters, in the order of their marks.
  bool own_backward = false;

  // --- What the user asked for.
  UpdateOptions updates;  // the optimizer, and how gradients become updates
  Policy policy;          // the level: what is stored, and in which form
  Compute compute = Compute::kFloat32;
  std::optional<Codec> frozen_weights;  // --frozen-weights: the code of parameters that do not train
  // Of an evaluation: the training step. Both read the same parameters.
  const Graph* training = nullptr;
  int64_t workspace_limit = 0;  // bytes of scratch space a node; 0: no limit
  bool wants_variance = false;  // relative_variance is asked for
  // Whose peak planning lowers. The plan serves all of them.
  TargetKind target = TargetKind::kCpu;
  // > 0: so many bytes of codes at policy.batch, and so many codes, may wait in the host's memory (swap_codes.cc).
  int64_t host_limit = 0;
  int64_t most_swapped = std::numeric_limits<int64_t>::max();

  // --- What the search for re-runs decided (passes/storage/choose_reruns.h).
  // The most elements a sample of a value that is re-run from anchors. It is bounded because the
  // result of a re-run lies in memory at full size. 0: nothing is re-run. The search also sets
  // policy.rerun_spacing and policy.least_peak.
  int64_t rerun_elements = 0;
  // Of the segments that this allows (passes/storage/cut_forward.h), so many are re-run: the first ones. The backward
  // pass begins with the others, so what is stored for them is gone before it comes to a peak in the first ones.
  int64_t rerun_segments = std::numeric_limits<int64_t>::max();
  // L5: the fewest elements a sample of a product's result that is made twice, for batch statistics and
  // after them (passes/planning/repeat_products.cc). 0: none is.
  int64_t repeated_elements = 0;
  // L5: segments that re-run a result of so many elements a sample are re-run in parts (passes/storage/recipes.h).
  // 0: none is.
  int64_t parted_elements = 0;

  // --- What passes found.
  // The saved activations, which compress fills in. The value that is stored for edges[i] has i
  // among its marks. Whoever runs passes updates `stored` after each one.
  std::vector<SavedEdge> edges;
  // For each value: whether it is trained, for which edge it is stored, what storage passes note.
  Marks marks;
  // The next stream of random numbers. Each dropout and each code with random rounding takes one.
  int32_t next_stream = 0;
  // The variance that all codes with levels add, by the prior of mix-levels. It can be compared
  // between steps of the same model.
  double expected_variance = 0;
  // The same as a part of the gradient's squared norm (expect-variance). Nothing: the prior does not know.
  std::optional<double> relative_variance;
  // Under Policy::saved_limit: the bytes if every code had its fewest levels.
  int64_t least_saved_bytes = 0;
};

// A PassFunction works on the nodes. A StepPassFunction works on a step whose order is final and
// whose values have their storage. Only what a user can cause is an error.
using PassFunction = llvm::Error (*)(Graph&, PassContext&);
using StepPassFunction = llvm::Error (*)(StepGraph&, PassContext&);

}  // namespace act
