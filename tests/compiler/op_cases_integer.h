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

inline std::vector<OpCase> IntegerCases() {
  const auto mod = [](double a, double b) { return a - b * std::floor(a / b); };
  return {IntegerCase("mod", {3, 5}, {3, 5}, mod), IntegerCase("mod", {3, 5}, {5}, mod, {0, 1}),
          IntegerCase("div", {2, 1, 4}, {1, 1}, [](double a, double b) { return std::trunc(a / b); }),
          IntegerCase("greater", {7}, {1}, [](double a, double b) { return a > b ? 1. : 0.; }),
          IntegerCase("add", {0, 3}, {3}, [](double a, double b) { return a + b; })};
}

}  // namespace act::gradient_case
