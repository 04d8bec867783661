// One value in place of another, wherever it is named.
#pragma once

#include "compiler/ir/marks.h"
#include "compiler/ir/value_map.h"
#include "runtime/plan/graph.h"

namespace act {

// What a pass replaces by what. The graph's outputs, the loss among them, and the marks of the
// replaced value go over at once. Nodes follow when Update sees them, so that a pass that rewrites
// nodes one after the other updates each as it comes to it. A node that was forgotten reads a value
// that nothing makes, which the verifier finds.
class Replacements {
 public:
  Replacements(Graph& graph, Marks& marks) : graph_(graph), marks_(marks), by_(graph, kNoValue) {}

  // From now on `by` stands for `old`. `old` is no parameter or buffer: what these hold outlives
  // the step.
  void Replace(ValueId old, ValueId by);
  // What stands for v; v itself where nothing does.
  ValueId Current(ValueId v) const;
  // Makes the node read what stands for its operands.
  void Update(Node& node) const;

 private:
  Graph& graph_;
  Marks& marks_;
  ValueMap<ValueId> by_;
};

}  // namespace act
