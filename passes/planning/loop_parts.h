// Which nodes around a tensor can run in a loop over samples, and which have to move before it or after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "passes/planning/moving_step.h"
#include "runtime/plan/sample_loops.h"

namespace act {

// Some nodes that follow one another, split into those of a loop and those that move before or after it.
struct Parting {
  std::vector<size_t> before, loop, after;

  // The positions in their new order.
  std::vector<size_t> Order() const;
};

// Of a step whose nodes may move, and whose values keep their types. What may run in tiles is asked once. Many attempts
// walk over most nodes of a step, so what they read of each node lies side by side.
class LoopParts {
 public:
  explicit LoopParts(const MovingStep& step);

  TileRole RoleOf(ValueId id) const { return roles_[static_cast<size_t>(id)]; }
  // Of samples, or of tokens where a sample has more than one.
  bool IsTileable(NodeNumber node, int64_t tokens = 1) const;
  // Splits the nodes lo, lo + 1, .. for a loop that holds those of the core (of each node: whether it is one). Nullopt:
  // one of these cannot be in the loop.
  std::optional<Parting> Part(size_t lo, const std::vector<bool>& in_core, int64_t tokens) const;
  // Of 64 cores, a bit each: whether Part may find a loop for it. If not, one of its nodes reads what is complete only
  // after another one's loop, in whatever order the nodes are and with whatever else in the core. cores[i] are those
  // that hold the node lo + i.
  uint64_t MayHold(size_t lo, const std::vector<uint64_t>& cores) const;

 private:
  std::vector<bool> NeededWhole(size_t lo, const std::vector<bool>& in_core, int64_t tokens) const;
  struct NodeFacts {
    size_t first_input = 0, first_output = 0, end = 0;  // in operands_
    bool tileable = false, reshapes = false, writes = false;
  };
  const NodeFacts& FactsOf(NodeNumber node) const { return nodes_[static_cast<size_t>(node)]; }
  std::span<const ValueId> InputsOf(NodeNumber node) const {
    const NodeFacts& facts = FactsOf(node);
    return {operands_.data() + facts.first_input, facts.first_output - facts.first_input};
  }
  std::span<const ValueId> OutputsOf(NodeNumber node) const {
    const NodeFacts& facts = FactsOf(node);
    return {operands_.data() + facts.first_output, facts.end - facts.first_output};
  }

  const MovingStep& step_;
  std::vector<TileRole> roles_;    // of values
  std::vector<NodeFacts> nodes_;   // by number
  std::vector<ValueId> operands_;  // of each node, then its results
};

}  // namespace act
