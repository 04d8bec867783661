// Rows of operators along one axis.
#pragma once

#include <algorithm>
#include <numeric>

#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

inline OpCase CumSumCase(const Ints& dims, int64_t axis, bool exclusive, bool reverse,
                         std::vector<size_t> batched = {}) {
  return {"CumSum " + ::testing::PrintToString(dims) + " over " + std::to_string(axis),
          {{dims}},
          One("CumSum",
              Attrs({{"axis", axis}, {"exclusive", int64_t{exclusive}}, {"reverse", int64_t{reverse}}})),
          [=](const Tensors& t) {
            return truth::Make(t[0].dims, [&](const Ints& i) {
              const auto a = static_cast<size_t>(axis);
              double sum = 0;
              for (Ints k = i; reverse ? k[a] < t[0].dims[a] : k[a] >= 0; k[a] += reverse ? 1 : -1)
                if (!exclusive || k[a] != i[a]) sum += t[0].at(k);
              return sum;
            });
          },
          std::move(batched)};
}

// The values at the positions: k of each row, in order.
inline OpCase TopKCase(const Ints& dims, int64_t k, bool largest, std::vector<size_t> batched = {}) {
  return {
      "TopK of " + ::testing::PrintToString(dims),
      {{dims, -20, 20}},  // far apart, so that finite differences change no order
      [=](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
        TensorType type{DType::kInt64, b.type(v[0]).dims};
        type.dims.back() = k;
        const ValueId index = Take(b.AddTyped("TopK", {v[0]}, type, Attrs({{"largest", int64_t{largest}}})));
        return b.AddTyped("Gather", {v[0], index}, {DType::kFloat32, type.dims},
                          Attrs({{"axis", static_cast<int64_t>(dims.size()) - 1}}), "tested");
      },
      [=](const Tensors& t) {
        Ints to = dims;
        to.back() = k;
        return truth::Make(to, [&](const Ints& i) {
          std::vector<double> row;
          Ints at = i;
          for (at.back() = 0; at.back() < dims.back(); ++at.back()) row.push_back(t[0].at(at));
          std::sort(row.begin(), row.end());
          if (largest) std::reverse(row.begin(), row.end());
          return row[static_cast<size_t>(i.back())];
        });
      },
      std::move(batched)};
}

// Of random numbers, x times what is certain about them: the floor of uniform ones in [2, 3), and
// normal ones that are not spread.
inline OpCase RandomCase(const Ints& dims, const Attributes& drawn, double certain) {
  return {"Random " + drawn.String("distribution"),
          {{dims}},
          [=](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
            const ValueId random = Take(b.AddTyped("Random", {}, b.type(v[0]), drawn, "tested"));
            return b.Add1("Mul", {v[0], Take(b.Add1("Floor", {random}))});
          },
          [=](const Tensors& t) { return truth::Map(t[0], [=](double x) { return certain * x; }); },
          {0}};
}

inline std::vector<OpCase> SequenceCases() {
  std::vector<OpCase> cases;
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true})
      for (const int64_t axis : {0, 1, 2}) cases.push_back(CumSumCase({3, 5, 4}, axis, exclusive, reverse));
  cases.push_back(CumSumCase({3, 7}, 1, true, false, {0}));
  cases.push_back(CumSumCase({3, 7}, 0, false, true, {0}));  // over the samples
  cases.push_back(CumSumCase({2, 3, 67}, 1, false, false));
  cases.push_back(CumSumCase({0, 3}, 1, false, false));
  cases.push_back(CumSumCase({3, 0}, 1, false, false));
  cases.push_back(RandomCase({3, 5}, Attrs({{"distribution", "uniform"}, {"offset", 2.0}}), 2));
  cases.push_back(
      RandomCase({3, 5}, Attrs({{"distribution", "normal"}, {"offset", 3.5}, {"scale", 0.0}}), 3));
  for (const bool largest : {false, true}) {
    cases.push_back(TopKCase({3, 7}, 1, largest));
    cases.push_back(TopKCase({2, 3, 9}, 4, largest, {0}));
    cases.push_back(TopKCase({5}, 5, largest));
    cases.push_back(TopKCase({3, 4}, 0, largest));
    cases.push_back(TopKCase({0, 4}, 2, largest));
  }
  return cases;
}

}  // namespace act::gradient_case
