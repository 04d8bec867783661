// Answers the questions that passes ask to recognize compositions of operators: which node makes a
// value and which nodes read it, whether it is a known number, and which polynomial of given values
// it is, however it was written.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "runtime/plan/graph.h"

namespace act {

// By (i, j), the coefficient of x^i y^j. The polynomial is the sum of these terms.
using Polynomial = std::map<std::pair<int, int>, double>;

// The number that all elements of a float32 constant equal, to the bit.
// nullopt: they differ or are unknown.
std::optional<float> NumberIn(const Value& value);

class Pattern {
 public:
  // Nodes may be edited meanwhile, but neither added nor moved. Values must keep their makers.
  explicit Pattern(Graph& graph);

  // The node that makes v. Null: no node does.
  Node* Maker(ValueId v);
  // The node that makes v, if it has that operator. Else null.
  Node* Maker(ValueId v, const char* op);
  // The only node that reads v. Null: none or several do, or v is an output of the graph.
  Node* OnlyReader(ValueId v);
  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }

  // The number that all elements of a constant equal.
  std::optional<double> Number(ValueId v);
  // A parameter, buffer or constant, in any shape. It is the same for every sample.
  bool IsWeight(ValueId v);

  // v as a polynomial of x and y, of degree kDegree at most. It follows at most `depth` sums,
  // products and powers in a row.
  std::optional<Polynomial> PolynomialOf(ValueId v, ValueId x, ValueId y = kNoValue, int depth = 8);

  static constexpr int kDegree = 4;

 private:
  Node* NodeAt(int64_t position);  // null: there is none

  Graph& graph_;
  const Uses uses_;
};

// Whether the second of two Transposes puts each axis back to where the first took it from.
bool Undoes(const Node& second, const Node& first);

// Whether these are the same terms. Coefficients are float32 in models, so they may differ by a few
// units in the last place.
bool Matches(const std::optional<Polynomial>& p, const Polynomial& expected);

}  // namespace act
