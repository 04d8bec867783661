// Rows of determinants. The truth adds up the products of all permutations; the kernel eliminates.
#pragma once

#include <algorithm>
#include <numeric>

#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

// x: [..,n,n]
inline Tensor Determinants(const Tensor& x) {
  const Ints to(x.dims.begin(), x.dims.end() - 2);
  return truth::Make(to, [&](const Ints& i) {
    Ints order(static_cast<size_t>(x.dims.back()));
    std::iota(order.begin(), order.end(), 0);
    double sum = 0;
    do {
      double product = 1;
      for (size_t row = 0; row < order.size(); ++row) {
        Ints at = i;
        at.insert(at.end(), {static_cast<int64_t>(row), order[row]});
        product *= x.at(at);
        for (size_t later = row + 1; later < order.size(); ++later)
          if (order[later] < order[row]) product = -product;
      }
      sum += product;
    } while (std::next_permutation(order.begin(), order.end()));
    return sum;
  });
}

inline OpCase DetCase(const Ints& dims, std::vector<size_t> batched = {}) {
  return {"Det of " + ::testing::PrintToString(dims),
          {{dims}},
          One("Det"),
          [](const Tensors& t) { return Determinants(t[0]); },
          std::move(batched)};
}

inline std::vector<OpCase> DeterminantCases() {
  return {DetCase({3, 3}), DetCase({1, 1}), DetCase({5, 2, 2}, {0}), DetCase({3, 2, 4, 4}, {0}),
          DetCase({2, 6, 6})};
}

}  // namespace act::gradient_case
