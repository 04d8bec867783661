// Rows of exact arithmetic on integers. tests/unit/integer_test.cc checks the numbers.
#pragma once

#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

// x float(op(i, j))
inline OpCase IntegerCase(const std::string& op, const Ints& i, const Ints& j,
                          const std::function<double(double, double)>& f, std::vector<size_t> batched = {}) {
  return {"Integer " + op + " of " + ::testing::PrintToString(i) + " and " + ::testing::PrintToString(j),
          {{i}, {i, -20, 20, Kind::kIndex}, {j, 1, 9, Kind::kIndex}},
          [op](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
            const ValueId result = Take(b.Add1("Integer", {v[1], v[2]}, Attrs({{"op", op}})));
            const auto to = static_cast<int64_t>(DType::kFloat32);
            return b.Add1("Mul", {v[0], Take(b.Add1("Cast", {result}, Attrs({{"to", to}})))});
          },
          [f](const Tensors& t) {
            return truth::Map(t[0], truth::Map(t[1], t[2], f), [](double x, double y) { return x * y; });
          },
          std::move(batched)};
}

// x float(reduction(i)) along the last axis
inline OpCase IntegerReduceCase(const std::string& op, const Ints& dims,
                                const std::function<double(double, double)>& f,
                                std::vector<size_t> batched = {}) {
  Ints kept = dims;
  kept.back() = 1;
  const auto axis = static_cast<int64_t>(dims.size()) - 1;
  return {"IntegerReduce " + op + " of " + ::testing::PrintToString(dims),
          {{kept}, {dims, -9, 9, Kind::kIndex}},
          [op, axis](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
            const ValueId result =
                Take(b.Add1("IntegerReduce", {v[1]}, Attrs({{"op", op}, {"axes", Ints{axis}}})));
            const auto to = static_cast<int64_t>(DType::kFloat32);
            return b.Add1("Mul", {v[0], Take(b.Add1("Cast", {result}, Attrs({{"to", to}})))});
          },
          [f, kept, dims](const Tensors& t) {
            return truth::Make(kept, [&](const Ints& i) {
              Ints at = i;
              double y = t[1].at(at);
              for (at.back() = 1; at.back() < dims.back(); ++at.back()) y = f(y, t[1].at(at));
              return t[0].at(i) * y;
            });
          },
          std::move(batched)};
}

inline std::vector<OpCase> IntegerCases() {
  const auto mod = [](double a, double b) { return a - b * std::floor(a / b); };
  const auto sum = [](double a, double b) { return a + b; };
  return {IntegerCase("mod", {3, 5}, {3, 5}, mod),
          IntegerCase("mod", {3, 5}, {5}, mod, {0, 1}),
          IntegerCase("div", {2, 1, 4}, {1, 1}, [](double a, double b) { return std::trunc(a / b); }),
          IntegerCase("greater", {7}, {1}, [](double a, double b) { return a > b ? 1. : 0.; }),
          IntegerCase("add", {0, 3}, {3}, sum),
          IntegerReduceCase("add", {3, 5}, sum, {0, 1}),
          IntegerReduceCase("max", {1, 2, 7}, [](double a, double b) { return std::max(a, b); }),
          IntegerReduceCase("mul", {4, 1}, [](double a, double b) { return a * b; }),
          IntegerReduceCase("min", {0, 3}, [](double a, double b) { return std::min(a, b); })};
}

}  // namespace act::gradient_case
