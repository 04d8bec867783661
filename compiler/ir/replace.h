// Replaces one value by another, wherever it is named.
#pragma once

#include "compiler/ir/marks.h"
#include "compiler/ir/value_map.h"
#include "runtime/plan/graph.h"

namespace act {

// The replacements of a pass. The graph's outputs, the loss among them, and the marks of the
// replaced value are updated at once. Nodes are updated when Update sees them, so that a pass that
// rewrites nodes one after the other updates each as it comes to it. A node that was forgotten
// reads a value that nothing makes, which the verifier finds.
class Replacements {
 public:
  Replacements(Graph& graph, Marks& marks) : graph_(graph), marks_(marks), by_(graph, kNoValue) {}

  // From now on `by` stands for `old`. `old` must not be a parameter or buffer: their contents
  // outlive the step.
  void Replace(ValueId old, ValueId by);
  // The value that stands for v; v itself if none does.
  ValueId Current(ValueId v) const;
  // Makes the node read the replacements of its operands.
  void Update(Node& node) const;

 private:
  Graph& graph_;
  Marks& marks_;
  ValueMap<ValueId> by_;
};

}  // namespace act
