// --exact=PART: stores exactly what the forward pass makes last, up to PART of the bytes that codes would replace.
//
// What is made last is stored for the shortest time: the backward pass reads it first. So it costs nothing at a peak
// that lies early in the forward pass or late in the backward pass. What is kept is not recomputed, and at L4 and L5
// not re-run.
#include <algorithm>
#include <vector>

#include "compiler/policy/compared_batches.h"
#include "passes/pass.h"
#include "passes/storage/saved_values.h"

namespace act {

llvm::Error KeepExactly(Graph& graph, PassContext& context) {
  const SavedValues saved(graph, context);
  // Of each node of the forward pass: the bytes that codes of its results would replace.
  std::vector<double> replaced(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (saved.InForward(i))
      for (const ValueId v : graph.nodes[i].outputs)
        if (v != kNoValue && saved.Crosses(v) && saved.CodesLossily(v))
          replaced[i] += static_cast<double>(graph.value(v).type.Bytes().At(kComparedBatch));
  double left = 0;
  for (const double bytes : replaced) left += context.policy.exact_part * bytes;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (!saved.InForward(i)) continue;
    left -= replaced[i];
    if (left < 0) break;
    for (const ValueId v : graph.nodes[i].outputs)
      if (v != kNoValue) context.marks[v].kept_exactly = true;
  }
  // What place-derived moves to the forward pass is a function of these.
  for (const Node& node : graph.nodes) {
    const bool of_kept = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      return v != kNoValue && context.marks[v].kept_exactly;
    });
    for (const ValueId v : node.outputs)
      if (node.phase == Phase::kDerived && of_kept && v != kNoValue) context.marks[v].kept_exactly = true;
  }
  return llvm::Error::success();
}

}  // namespace act
