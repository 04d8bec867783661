// What passes that recognize compositions of operators ask about a graph: who makes and who reads a value,
// what is a known number, and which polynomial of given values a value is, however it was written.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "runtime/plan/graph.h"

namespace act {

// sum of coefficient x^i y^j over its terms, by (i, j)
using Polynomial = std::map<std::pair<int, int>, double>;

// The number that all elements of a float32 constant are, to the bit; nullopt where they differ or are
// unknown.
std::optional<float> NumberIn(const Value& value);

class Pattern {
 public:
  // Nodes may be edited meanwhile, but neither added nor moved; values must not change their makers.
  explicit Pattern(Graph& graph);

  // The node that makes v; null: none does.
  Node* Maker(ValueId v);
  // The maker where it is of that operator.
  Node* Maker(ValueId v, const char* op);
  // The only node that reads v; null where there are none or several, or the graph itself wants v.
  Node* OnlyReader(ValueId v);
  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }

  // The number that a constant's elements are, all of them.
  std::optional<double> Number(ValueId v);
  // A parameter, buffer or constant, under whatever shape: the same for every sample.
  bool IsWeight(ValueId v);

  // v as a polynomial of x and y, of degree kDegree at most, by at most `depth` sums, products and powers in
  // a row.
  std::optional<Polynomial> PolynomialOf(ValueId v, ValueId x, ValueId y = kNoValue, int depth = 8);

  static constexpr int kDegree = 4;

 private:
  Node* NodeAt(int64_t position);  // null: there is none

  Graph& graph_;
  const Uses uses_;
};

// Are these the same terms? Coefficients are float32 in models, so they differ by a few units in its last
// place.
bool Matches(const std::optional<Polynomial>& p, const Polynomial& expected);

}  // namespace act
