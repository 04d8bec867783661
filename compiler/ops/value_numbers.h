// Which values of a graph hold the same numbers because they are computed in the same way.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// Global value numbering of a graph that grows: two results are the same if the same operator, which draws no random
// numbers and writes nothing in place, makes them with the same attributes from the same operands. Inputs and
// constants are the same as themselves alone. (A. Aho et al., Compilers, 2006, section 6.1.2.)
class ValueNumbers {
 public:
  // The first value of `graph` that is the same as `value`; `value` itself if there is none. The graph is always the
  // same one, and has only been added to since the last call.
  ValueId FirstLike(const Graph& graph, ValueId value);

 private:
  // The operator, the operands, attributes, the types of the results.
  using Key = std::tuple<std::string, std::vector<ValueId>, std::map<std::string, Attribute>,
                         std::vector<std::string>>;

  void Read(const Graph& graph);

  std::vector<ValueId> first_;  // by value
  size_t nodes_ = 0;            // that are read
  std::map<Key, std::vector<ValueId>> results_;
};

}  // namespace act
