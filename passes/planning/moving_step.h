// A step whose nodes move, with an index of its values that follows them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"

namespace act {

// A node keeps its number when it moves: its first position.
using NodeNumber = int32_t;
// A position in MovingStep::families().
using FamilyId = int32_t;

// A value and its reshapes, which share its memory.
struct Family {
  ValueId root = kNoValue;        // made first
  std::vector<ValueId> values;    // the root, and its reshapes
  std::vector<NodeNumber> nodes;  // that make or read one of them, each once
  size_t first = 0,
         last = 0;  // positions of the first and last of these; an input is there before the first node,
                    // an output after the last
  bool persistent = false;  // lives at every node
  bool on_host = false;     // in the host's arena
  bool is_output = false;   // of the graph
  bool slices = false;      // no node but those of a loop need see it whole
  // The reshapes of an input without the input. Its own family has its bytes.
  bool without_root = false;

  // A node at the position makes or reads one of the values.
  void Touch(size_t position) {
    first = std::min(first, position);
    last = std::max(last, position);
  }
};

// The loop over samples whose nodes alone touch the family; -1: there is none.
inline int32_t LoopOf(const Family& family, const std::vector<int32_t>& loop_of_node) {
  if (!family.slices) return -1;
  const int32_t loop = loop_of_node[family.first];
  return loop_of_node[family.last] == loop ? loop : -1;
}

// If no node reads `read` afterwards, and both are in the same loop or in none, `made` takes its storage.
struct FamilyOverwrite {
  FamilyId made = 0, read = 0;
};

class MovingStep {
 public:
  explicit MovingStep(StepGraph& step);

  const Graph& graph() const { return graph_; }
  const std::vector<Family>& families() const { return families_; }
  // Of the value's storage. -1: it has none.
  FamilyId FamilyOf(ValueId value) const { return family_of_[static_cast<size_t>(value)]; }
  // Those of which the node makes or reads a value, but for persistent ones.
  std::span<const FamilyId> FamiliesOf(NodeNumber node) const {
    return families_of_[static_cast<size_t>(node)];
  }
  // In the order in which they are tried. A storage is taken once.
  std::span<const FamilyOverwrite> OverwritesOf(NodeNumber node) const {
    return overwrites_of_[static_cast<size_t>(node)];
  }
  NodeNumber At(size_t position) const { return number_at_[position]; }
  size_t PositionOf(NodeNumber node) const { return position_of_[static_cast<size_t>(node)]; }
  const Node& NodeOf(NodeNumber node) const { return graph_.nodes[PositionOf(node)]; }

  // Moves the node at order[k] to lo + k. `order` has the positions lo .. lo + size - 1.
  void Move(size_t lo, const std::vector<size_t>& order);

 private:
  void FindFamilies(const StepGraph& step);
  void FindNodes();
  void FindOverwrites();
  void FindEnds();
  size_t FirstWithoutNodes(const Family& family) const;
  size_t LastWithoutNodes(const Family& family) const;

  Graph& graph_;
  std::vector<Family> families_;
  std::vector<FamilyId> family_of_;  // of each value
  std::vector<std::vector<FamilyId>> families_of_;
  std::vector<std::vector<FamilyOverwrite>> overwrites_of_;
  std::vector<NodeNumber> number_at_;
  std::vector<size_t> position_of_;
};

}  // namespace act
