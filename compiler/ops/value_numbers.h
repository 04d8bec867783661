// Which values of a graph hold the same numbers because they are computed in the same way.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// What a node computes: its operator, operands, attributes, and the types of its results. Nodes that agree in all of
// these have the same results.
using Computation =
    std::tuple<std::string, std::vector<ValueId>, std::map<std::string, Attribute>, std::vector<std::string>>;

// Of `node` with these operands; nullopt where it draws random numbers or writes in place.
std::optional<Computation> ComputationOf(const Graph& graph, const Node& node, std::vector<ValueId> operands);

// Global value numbering of a graph that grows: results of the same computation of the same operands are the same.
// Inputs and constants are the same as themselves alone. (A. Aho et al., Compilers, 2006, section 6.1.2.)
class ValueNumbers {
 public:
  // The first value of `graph` that is the same as `value`; `value` itself if there is none. The graph is always the
  // same one, and has only been added to since the last call.
  ValueId FirstLike(const Graph& graph, ValueId value);

 private:
  void Read(const Graph& graph);

  std::vector<ValueId> first_;  // by value
  size_t nodes_ = 0;            // that are read
  std::map<Computation, std::vector<ValueId>> results_;
};

}  // namespace act
