// Which node makes a value, and which nodes read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/ir/value_map.h"
#include "runtime/plan/graph.h"

namespace act {

// An index of a list of nodes, built once in one walk over it. It holds positions in that list and
// does not follow changes:
// * Nodes may be appended and the graph may get values: the index does not know these, and keeps
//   being right.
// * Once nodes read other values, their producers are still right and their readers are not.
// * It is wrong once nodes are inserted, removed or moved, or make other values. Build it anew
//   then.
//
// Every function takes kNoValue, which nothing makes and nothing reads.
class Uses {
 public:
  explicit Uses(const Graph& graph) : Uses(graph, graph.nodes) {}
  // The index of `nodes`, for a pass that keeps the graph's nodes outside the graph for a time. The
  // list must outlive this.
  Uses(const Graph& graph, const std::vector<Node>& nodes);

  // The position of the node that makes v; -1 if none does (an input, a parameter, a constant).
  int64_t Producer(ValueId v) const { return producer_[v]; }
  // That node; null if none does.
  const Node* ProducerNode(ValueId v) const {
    return producer_[v] < 0 ? nullptr : &(*nodes_)[static_cast<size_t>(producer_[v])];
  }

  // The positions of the nodes that read v, in order. A node that reads it as two operands is
  // listed twice.
  std::span<const size_t> Readers(ValueId v) const;
  // Is v one of the graph's outputs?
  bool IsOutput(ValueId v) const { return output_count_[v] > 0; }
  // How often v is read, by operands of nodes and by the graph's outputs.
  size_t Reads(ValueId v) const { return Readers(v).size() + output_count_[v]; }
  // The position of the only node that reads v, as any number of operands. -1 if none or several
  // do, or if v is an output of the graph.
  int64_t OnlyReader(ValueId v) const;

 private:
  const std::vector<Node>* nodes_;
  ValueMap<int64_t> producer_;
  ValueMap<size_t> first_;       // where a value's readers begin in readers_
  ValueMap<size_t> read_count_;  // operands that read it
  ValueMap<size_t> output_count_;
  std::vector<size_t> readers_;  // the readers of each value, one value after the other
};

}  // namespace act
