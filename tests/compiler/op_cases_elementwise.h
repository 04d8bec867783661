// Rows of elementwise operators and reductions.
#pragma once

#include "tests/compiler/gradient_case.h"

namespace act::gradient_case {

using Values = std::vector<ValueId>;
using Tensors = std::vector<Tensor>;

inline Attributes Attrs(std::initializer_list<std::pair<const char*, Attribute>> list) {
  Attributes attrs;
  for (const auto& [name, value] : list) attrs.Set(name, value);
  return attrs;
}

// Most rows: the operator alone, applied to its operands.
inline auto One(std::string op, Attributes attrs = {}) {
  return [op = std::move(op), attrs = std::move(attrs)](GraphBuilder& b, const Values& v) {
    return b.Add1(op, v, attrs, "tested");
  };
}

inline double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double SoftplusOf(double x) { return std::log1p(std::exp(x)); }

struct UnaryRow {
  const char* op;
  double (*f)(double);
  double low = -3, high = 3;
  Attributes attrs = {};
};

inline std::vector<OpCase> UnaryCases() {
  const std::vector<UnaryRow> rows = {
      {"Identity", [](double x) { return x; }},
      {"Neg", [](double x) { return -x; }},
      {"Relu", [](double x) { return x > 0 ? x : 0; }},
      {"LeakyRelu", [](double x) { return x > 0 ? x : .3 * x; }, -3, 3, Attrs({{"alpha", .3}})},
      {"Clip", [](double x) { return std::min(std::max(x, 0.), 2.); }, -3, 3,
       Attrs({{"min", 0.}, {"max", 2.}})},
      {"Clip", [](double x) { return std::min(x, 1.); }, -3, 3, Attrs({{"max", 1.}})},
      {"Clip", [](double x) { return std::max(x, -1.); }, -3, 3, Attrs({{"min", -1.}})},
      {"Abs", [](double x) { return std::fabs(x); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }, .1, 4},
      {"Square", [](double x) { return x * x; }},
      {"Reciprocal", [](double x) { return 1 / x; }, .3, 3},
      {"Reciprocal", [](double x) { return 1 / x; }, -3, -.3},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Log", [](double x) { return std::log(x); }, .1, 5},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Sigmoid", [](double x) { return Sigmoid(x); }, -6, 6},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Sin", [](double x) { return std::sin(x); }, -7, 7},
      {"Cos", [](double x) { return std::cos(x); }, -7, 7},
      {"Tan", [](double x) { return std::tan(x); }, -1.2, 1.2},
      {"Asin", [](double x) { return std::asin(x); }, -.95, .95},
      {"Acos", [](double x) { return std::acos(x); }, -.95, .95},
      {"Atan", [](double x) { return std::atan(x); }, -5, 5},
      {"Sinh", [](double x) { return std::sinh(x); }, -3, 3},
      {"Cosh", [](double x) { return std::cosh(x); }, -3, 3},
      {"Asinh", [](double x) { return std::asinh(x); }, -5, 5},
      {"Acosh", [](double x) { return std::acosh(x); }, 1.1, 6},
      {"Atanh", [](double x) { return std::atanh(x); }, -.95, .95},
      {"LogSigmoid", [](double x) { return -std::log1p(std::exp(-x)); }, -3, 3},
      {"Softsign", [](double x) { return x / (1 + std::fabs(x)); }},
      {"Celu", [](double x) { return x > 0 ? x : 1.5 * std::expm1(x / 1.5); }, -3, 3,
       Attrs({{"alpha", 1.5}})},
      {"Celu", [](double x) { return x > 0 ? x : -.5 * std::expm1(x / -.5); }, -1, 3,
       Attrs({{"alpha", -.5}})},
      {"ThresholdedRelu", [](double x) { return x > .8 ? x : 0; }, -3, 3, Attrs({{"alpha", .8}})},
      {"Shrink", [](double x) { return x > 1    ? x - .3
                                       : x < -1 ? x + .3
                                                : 0; }, -3, 3,
       Attrs({{"lambd", 1.}, {"bias", .3}})},
      {"Softplus", [](double x) { return SoftplusOf(x); }, -20, 20},
      {"Elu", [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); }, -3, 3, Attrs({{"alpha", 1.5}})},
      {"Selu",
       [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); }},
      {"HardSigmoid", [](double x) { return std::min(std::max(.3 * x + .4, 0.), 1.); }, -4, 4,
       Attrs({{"alpha", .3}, {"beta", .4}})},
      {"HardSwish", [](double x) { return x * std::min(std::max(x / 6 + .5, 0.), 1.); }, -5, 5},
      {"Silu", [](double x) { return x * Sigmoid(x); }, -6, 6},
      {"Gelu", [](double x) { return .5 * x * (1 + std::erf(x / std::sqrt(2.))); }},
      {"Gelu",
       [](double x) { return .5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + .044715 * x * x * x))); }, -3,
       3, Attrs({{"approximate", std::string("tanh")}})},
      {"Mish", [](double x) { return x * std::tanh(SoftplusOf(x)); }, -6, 6},
  };
  std::vector<OpCase> cases;
  cases.reserve(std::size(rows));
  for (const UnaryRow& row : rows)
    cases.push_back({row.op,
                     {{{3, 5, 7}, row.low, row.high}},
                     One(row.op, row.attrs),
                     [f = row.f](const Tensors& t) { return truth::Map(t[0], f); },
                     {0}});
  // Shapes: a scalar, one element, no elements, more than a tile of a fused loop, a last
  // tile of one element.
  for (const Ints& dims : std::vector<Ints>{{}, {1}, {1, 1, 1}, {0}, {0, 3}, {1, 1025}, {7, 1, 300}})
    cases.push_back({"Tanh of shape", {{dims}}, One("Tanh"), [](const Tensors& t) {
                       return truth::Map(t[0], [](double x) { return std::tanh(x); });
                     }});
  return cases;
}

struct BinaryRow {
  const char* op;
  double (*f)(double, double);
  double low_a = -2, high_a = 2, low_b = -2, high_b = 2;
};

inline std::vector<OpCase> BinaryCases() {
  const std::vector<BinaryRow> rows = {
      {"Add", [](double a, double b) { return a + b; }},
      {"Sub", [](double a, double b) { return a - b; }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"Div", [](double a, double b) { return a / b; }, -2, 2, .5, 2},
      {"Pow", [](double a, double b) { return std::pow(a, b); }, .3, 2, -2, 2},
      {"Max", [](double a, double b) { return std::max(a, b); }},
      {"Min", [](double a, double b) { return std::min(a, b); }},
  };
  const std::vector<std::pair<Ints, Ints>> shapes = {
      {{3, 5}, {3, 5}}, {{2, 3, 5}, {5}}, {{2, 3, 5}, {3, 1}},       {{4, 1}, {1, 6}},
      {{3, 5}, {}},     {{}, {3, 5}},     {{1, 5}, {3, 1, 1}},       {{2, 1, 3}, {2, 4, 3}},
      {{1}, {1}},       {{0, 3}, {3}},    {{2, 1, 3, 1}, {4, 1, 2}},
  };
  std::vector<OpCase> cases;
  for (const BinaryRow& row : rows)
    for (const auto& [a, b] : shapes)
      cases.push_back({std::string(row.op) + " " + ::testing::PrintToString(a) + ::testing::PrintToString(b),
                       {{a, row.low_a, row.high_a}, {b, row.low_b, row.high_b}},
                       One(row.op),
                       [f = row.f](const Tensors& t) { return truth::Map(t[0], t[1], f); }});
  for (const BinaryRow& row : rows)
    cases.push_back({std::string(row.op) + " of samples",
                     {{{4, 3, 5}, row.low_a, row.high_a}, {{3, 1}, row.low_b, row.high_b}},
                     One(row.op),
                     [f = row.f](const Tensors& t) { return truth::Map(t[0], t[1], f); },
                     {0}});
  cases.push_back({"Mul with itself",
                   {{{3, 5}}},
                   [](GraphBuilder& b, const Values& v) {
                     return b.Add1("Mul", {v[0], v[0]});
                   },
                   [](const Tensors& t) { return truth::Map(t[0], [](double x) { return x * x; }); },
                   {0}});
  cases.push_back({"Div by itself squared",
                   {{{3, 5}, .5, 2}},
                   [](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
                     return b.Add1("Div", {v[0], Take(b.Add1("Square", {v[0]}))});
                   },
                   [](const Tensors& t) { return truth::Map(t[0], [](double x) { return 1 / x; }); },
                   {0}});
  cases.push_back({"Pow of a negative base",
                   {{{3, 5}, -2, -.5}, {{}, 3, 3, Kind::kFixed}},
                   One("Pow"),
                   [](const Tensors& t) { return truth::Map(t[0], [](double x) { return x * x * x; }); },
                   {0}});
  cases.push_back({"Pow to a known scalar",
                   {{{3, 5}, -2, 2}},
                   [](GraphBuilder& b, const Values& v) {
                     return b.Add1("Pow", {v[0], b.Scalar(2)});
                   },
                   [](const Tensors& t) { return truth::Map(t[0], [](double x) { return x * x; }); },
                   {0}});
  return cases;
}

// y = factor where op(a, b), else 0. a and b are inputs, since comparisons have no
// gradient of their own.
inline OpCase Comparison(const char* op, double (*f)(double, double)) {
  return {op,
          {{{4, 5}, 0, 4, Kind::kIndex}, {{5}, 0, 4, Kind::kIndex}, {{4, 5}}},
          [op](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
            const Attributes to_float = Attrs({{"to", static_cast<int64_t>(DType::kFloat32)}});
            const ValueId flags = Take(b.Add1(op, {v[0], v[1]}));
            return b.Add1("Mul", {Take(b.Add1("Cast", {flags}, to_float)), v[2]});
          },
          [f](const Tensors& t) {
            return truth::Map(truth::Map(t[0], t[1], f), t[2],
                              [](double flag, double x) { return flag * x; });
          },
          {0, 2}};
}

inline std::vector<OpCase> SelectionCases() {
  std::vector<OpCase> cases = {
      Comparison("Greater", [](double a, double b) { return a > b ? 1. : 0.; }),
      Comparison("Less", [](double a, double b) { return a < b ? 1. : 0.; }),
      Comparison("Equal", [](double a, double b) { return a == b ? 1. : 0.; }),
  };
  const auto select = [](const Tensors& t) {
    return truth::Make(truth::BroadcastDims(t), [&t](const Ints& i) {
      return t[0].Broadcast(i) != 0 ? t[1].Broadcast(i) : t[2].Broadcast(i);
    });
  };
  const std::vector<std::array<Ints, 3>> shapes = {
      {{{3, 5}, {3, 5}, {3, 5}}}, {{{3, 1}, {5}, {1, 5}}}, {{{5}, {3, 5}, {}}}, {{{2, 3, 5}, {}, {3, 5}}}};
  for (const auto& [condition, a, b] : shapes)
    cases.push_back({"Where", {{condition, -1, 1, Kind::kFlag}, {a}, {b}}, One("Where"), select});
  cases.push_back(
      {"Where of samples", {{{3, 5}, -1, 1, Kind::kFlag}, {{3, 5}}, {{}}}, One("Where"), select, {0, 1}});
  cases.push_back({"Where a computed condition holds",
                   {{{3, 5}}, {{3, 5}}},
                   [](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
                     const ValueId above = Take(b.Add1("Greater", {v[0], v[1]}));
                     return b.Add1("Where", {above, v[0], Take(b.Add1("Tanh", {v[1]}))});
                   },
                   [](const Tensors& t) {
                     return truth::Map(t[0], t[1],
                                       [](double a, double b) { return a > b ? a : std::tanh(b); });
                   },
                   {0, 1}});
  const std::pair<const char*, double (*)(double)> constants[] = {
      {"StopGradient", [](double x) { return x; }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Round", [](double x) { return std::nearbyint(x); }},
      {"Sign", [](double x) { return x > 0   ? 1.
                                     : x < 0 ? -1.
                                             : 0; }},
  };
  for (const auto& [op, f] : constants)
    cases.push_back({op,
                     {{{3, 5}, -4, 4, Kind::kFixed}, {{3, 5}}},  // its own gradient is zero
                     [op = op](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
                       return b.Add1("Mul", {Take(b.Add1(op, {v[0]})), v[1]});
                     },
                     [f = f](const Tensors& t) {
                       return truth::Map(truth::Map(t[0], f), t[1], [](double a, double b) { return a * b; });
                     },
                     {0, 1}});
  cases.push_back({"Cast to float",
                   {{{3, 5}}},
                   One("Cast", Attrs({{"to", static_cast<int64_t>(DType::kFloat32)}})),
                   [](const Tensors& t) { return t[0]; },
                   {0}});
  cases.push_back({"Cast rounds towards zero",
                   {{{3, 5}, -4, 4, Kind::kFixed}, {{3, 5}}},
                   [](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
                     const auto to = [](DType t) { return Attrs({{"to", static_cast<int64_t>(t)}}); };
                     const ValueId whole = Take(b.Add1("Cast", {v[0]}, to(DType::kInt64)));
                     return b.Add1("Mul", {Take(b.Add1("Cast", {whole}, to(DType::kFloat32))), v[1]});
                   },
                   [](const Tensors& t) {
                     return truth::Map(t[0], t[1], [](double a, double b) { return std::trunc(a) * b; });
                   },
                   {0, 1}});
  return cases;
}

inline Tensor Reduce(const Tensor& x, const Ints& axes, bool keep, const std::string& op) {
  std::vector<bool> reduced(x.rank(), false);
  for (int64_t a : axes) reduced[static_cast<size_t>(a)] = true;
  Ints dims = x.dims, dropped;
  int64_t count = 1;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (reduced[i]) {
      count *= dims[i];
      dims[i] = 1;
    } else {
      dropped.push_back(dims[i]);
    }
  }
  Tensor y(dims, op == "ReduceMax" ? -INFINITY : 0);
  truth::ForEach(x.dims, [&](const Ints& i) {
    Ints to = i;
    for (size_t a = 0; a < to.size(); ++a)
      if (reduced[a]) to[a] = 0;
    double& sum = y.at(to);
    sum = op == "ReduceMax" ? std::max(sum, x.at(i)) : sum + x.at(i);
  });
  if (op == "ReduceMean") y = truth::Map(y, [count](double v) { return v / static_cast<double>(count); });
  return keep ? y : truth::Reshape(y, dropped);
}

inline std::vector<OpCase> ReductionCases() {
  std::vector<OpCase> cases;
  const auto add = [&cases](const char* op, const Ints& dims, const Ints& axes, bool keep) {
    cases.push_back({std::string(op) + " " + ::testing::PrintToString(axes) + (keep ? " keep" : ""),
                     {{dims}},
                     One(op, Attrs({{"axes", axes}, {"keepdims", int64_t{keep}}})),
                     [=](const Tensors& t) { return Reduce(t[0], axes, keep, op); },
                     {0}});
  };
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax"}) {
    for (const Ints& axes : std::vector<Ints>{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}})
      for (bool keep : {false, true}) add(op, {3, 4, 5}, axes, keep);
    add(op, {1, 3, 1}, {0, 2}, false);
    add(op, {2, 3, 1, 5}, {1, 2}, true);
    add(op, {7}, {0}, false);
    add(op, {0, 3}, {1}, true);  // nothing to reduce, and the result has no elements
    add(op, {3, 0, 2}, {0}, false);
  }
  return cases;
}

}  // namespace act::gradient_case
