// Matrix products as test cases.
#pragma once

#include <array>

#include "tests/unit/kernel_testing.h"

namespace act {

inline OpCase MatMul(std::vector<int64_t> a, std::vector<int64_t> b, std::vector<int64_t> y, bool trans_a,
                     bool trans_b) {
  OpCase c{"MatMul", {}, {Random(std::move(a), 1), Random(std::move(b), 2)}, {Empty(std::move(y))}, {}, {}};
  c.attrs.Set("trans_a", int64_t{trans_a});
  c.attrs.Set("trans_b", int64_t{trans_b});
  return c;
}

// A tile after the first of a sum over samples: the product is added to what the result holds.
inline OpCase GoingOn(OpCase c) {
  c.outputs[0] = Random(c.outputs[0].dims, 4);
  c.goes_on = true;
  return c;
}

// Gradients of weights, which are such sums: [terms, m]^T [terms, n]. Several blocks each way, and edges that are no
// whole vectors.
inline std::vector<OpCase> SumsOverSamples() {
  std::vector<OpCase> cases;
  for (const auto& [terms, m, n] :
       {std::array<int64_t, 3>{1, 8, 16}, {7, 9, 17}, {900, 205, 130}, {2000, 40, 33}, {70, 130, 1024}})
    cases.push_back(GoingOn(MatMul({terms, m}, {terms, n}, {m, n}, true, false)));
  return cases;
}

// All four orders of the operands, batches that broadcast, and short extents.
inline std::vector<std::pair<std::string, OpCase>> MatMulCases() {
  std::vector<std::pair<std::string, OpCase>> cases;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const std::string order = std::string(ta ? "a^T " : "a ") + (tb ? "b^T" : "b");
      const auto pair = [](bool t, int64_t r, int64_t c) {
        return t ? std::vector{c, r} : std::vector{r, c};
      };
      const auto batch = [](std::vector<int64_t> b, const std::vector<int64_t>& m) {
        b.insert(b.end(), m.begin(), m.end());
        return b;
      };
      const auto a = pair(ta, 17, 100), b = pair(tb, 100, 33);
      cases.emplace_back(order, MatMul(a, b, {17, 33}, ta, tb));
      cases.emplace_back(order + ", shared b", MatMul(batch({3}, a), b, {3, 17, 33}, ta, tb));
      cases.emplace_back(order + ", shared a", MatMul(a, batch({3}, b), {3, 17, 33}, ta, tb));
      cases.emplace_back(order + ", both shared",
                         MatMul(batch({2, 1}, a), batch({3}, b), {2, 3, 17, 33}, ta, tb));
      cases.emplace_back(order + ", batches",
                         MatMul(batch({2, 4}, a), batch({2, 4}, b), {2, 4, 17, 33}, ta, tb));
      cases.emplace_back(order + ", shared b, one row",
                         MatMul(batch({3}, pair(ta, 1, 100)), b, {3, 1, 33}, ta, tb));
      cases.emplace_back(order + ", shared b, one column",
                         MatMul(batch({3}, a), pair(tb, 100, 1), {3, 17, 1}, ta, tb));
      cases.emplace_back(order + ", shared b, one term",
                         MatMul(batch({3}, pair(ta, 17, 1)), pair(tb, 1, 33), {3, 17, 33}, ta, tb));
    }
  cases.emplace_back("a number", MatMul({1, 1}, {1, 1}, {1, 1}, false, false));
  cases.emplace_back("outer", MatMul({5, 1}, {1, 7}, {5, 7}, false, false));
  cases.emplace_back("inner", MatMul({1, 9}, {9, 1}, {1, 1}, false, false));
  return cases;
}

// With a bias as their third operand.
inline std::vector<OpCase> BiasCases() {
  std::vector<OpCase> cases = {MatMul({17, 100}, {100, 33}, {17, 33}, false, false),
                               MatMul({3, 17, 100}, {33, 100}, {3, 17, 33}, false, true),
                               MatMul({2, 4, 17, 10}, {4, 10, 33}, {2, 4, 17, 33}, false, false)};
  for (OpCase& c : cases) c.inputs.push_back(Random({33}, 3));
  return cases;
}

}  // namespace act
