// Which nodes around a tensor can run in a loop over samples, and which have to move before it or after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/sample_loops.h"

namespace act {

// Some nodes that follow one another, split into those of a loop and those that move before or after it.
struct Parting {
  std::vector<size_t> before, loop, after;

  // The positions in their new order.
  std::vector<size_t> Order() const;
};

// Of a graph whose nodes may move, and whose values keep their types. What may run in tiles is asked once.
class LoopParts {
 public:
  explicit LoopParts(const Graph& graph);

  TileRole RoleOf(ValueId id) const { return roles_[static_cast<size_t>(id)]; }
  // Of samples, or of tokens where a sample has more than one.
  bool IsTileable(const Node& node, int64_t tokens = 1) const;
  // Splits the nodes lo, lo + 1, .. for a loop that holds those of the core (of each node: whether it is one). Nullopt:
  // one of these cannot be in the loop.
  std::optional<Parting> Part(size_t lo, const std::vector<bool>& in_core, int64_t tokens) const;
  // Of 64 cores, a bit each: whether Part may find a loop for it. If not, one of its nodes reads what is complete only
  // after another one's loop, in whatever order the nodes are and with whatever else in the core. cores[i] are those
  // that hold the node lo + i.
  uint64_t MayHold(size_t lo, const std::vector<uint64_t>& cores) const;

 private:
  std::vector<bool> NeededWhole(size_t lo, const std::vector<bool>& in_core, int64_t tokens) const;

  const Graph& graph_;
  std::vector<TileRole> roles_;  // of values
  std::vector<bool> tileable_;   // of nodes, by their first result
};

}  // namespace act
