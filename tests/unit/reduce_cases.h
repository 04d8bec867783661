// Reductions that every backend's kernels are compared by.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/unit/kernel_testing.h"

namespace act {

inline OpCase ReduceCase(const std::string& op, const std::vector<int64_t>& in,
                         const std::vector<int64_t>& axes, bool keep) {
  OpCase c{op, {}, {Random(in, 1)}, {}, {}, {}};
  c.attrs.Set("axes", axes);
  std::set<int64_t> reduced;
  for (int64_t a : axes) reduced.insert(a < 0 ? a + static_cast<int64_t>(in.size()) : a);
  std::vector<int64_t> out;
  for (size_t d = 0; d < in.size(); ++d) {
    if (!reduced.count(static_cast<int64_t>(d))) out.push_back(in[d]);
    if (reduced.count(static_cast<int64_t>(d)) && keep) out.push_back(1);
  }
  c.outputs = {Empty(out)};
  return c;
}

// Calls check(case, what). Sums are computed in double and rounded once: kReduceTolerance.
inline constexpr double kReduceTolerance = 1e-7;
template <class Check>
void ForReduceCases(Check check) {
  for (const std::string op : {"ReduceSum", "ReduceMean", "ReduceMax"}) {
    for (int set = 0; set < 16; ++set) {
      std::vector<int64_t> axes;
      for (int64_t d = 0; d < 4; ++d)
        if (set >> d & 1) axes.push_back(d);
      check(ReduceCase(op, {3, 5, 7, 19}, axes, set % 2), "set of axes " + std::to_string(set));
    }
    check(ReduceCase(op, {80, 30, 24}, {0, 1}, false), "in parts");
    check(ReduceCase(op, {600, 513}, {0}, true), "several blocks of columns");
    check(ReduceCase(op, {90, 20, 24}, {1, 2}, false), "rows");
  }
}

}  // namespace act
