// Elementwise operators on known tensors. Integers are polynomials in N; an operator folds only
// where its result is one too.
#include <algorithm>
#include <cmath>

#include "compiler/import/fold/element_arithmetic.h"
#include "compiler/import/fold/fold_shapes.h"
#include "compiler/import/known/onnx_types.h"
#include "compiler/ops/op_table.h"

namespace act::onnx_import {
namespace {

using Row = std::vector<Element>;

// Computes element by element over the broadcast operands. `f` gets one element of each, and the
// extent of the axis that varies with N.
template <class F>
Folded Map(const std::vector<const Known*>& in, DType dtype, F f) {
  Dims dims;
  bool splat = true;
  for (const Known* known : in) {
    if (!known || known->elements.empty()) return std::nullopt;
    const std::optional<Dims> joint = Broadcast(dims, known->type.dims);
    if (!joint) return std::nullopt;
    dims = *joint;
    splat = splat && known->IsSplat();
  }
  std::vector<std::vector<Element>> operands;
  size_t count = 1;
  if (splat) {
    for (const Known* known : in) operands.push_back(known->elements);
  } else {
    const auto stored = StoredDims(dims);
    if (!stored) return std::nullopt;
    for (const Known* known : in) operands.push_back(BroadcastElements(*known, *stored));
    count = operands[0].size();
  }
  const auto varying = VaryingAxis(dims);
  const Dim extent = varying ? dims[*varying] : Dim(1);
  Known result{{dtype, dims}, {}};
  result.elements.reserve(count);
  Row row(in.size());
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < in.size(); ++k) row[k] = operands[k][i];
    const OptionalElement element = f(row, extent);
    if (!element) return std::nullopt;
    result.elements.push_back(*element);
  }
  return std::vector<Known>{std::move(result)};
}

// A number as its integer type stores it.
OptionalElement InType(OptionalElement x, DType dtype) {
  if (x && x->integer.IsFixed() && x->per_index == 0) x->integer = Wrapped(x->integer.fixed, dtype);
  return x;
}

// Combines operands of one type from left to right, two at a time, by `integer` or `real`.
template <OptionalElement (*integer)(const Element&, const Element&), double (*real)(double, double)>
Folded Arithmetic(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const DType dtype = args.At(0)->type.dtype;
  for (const Known* in : args.in)
    if (!in || in->type.dtype != dtype) return std::nullopt;
  return Map(args.in, dtype, [dtype](const Row& x, const Dim&) {
    OptionalElement result = x[0];
    for (size_t i = 1; i < x.size() && result; ++i)
      result = IsFloat(dtype) ? RealElement(dtype, real(result->real, x[i].real))
                              : InType(integer(*result, x[i]), dtype);
    for (size_t i = 0; i < x.size() && result; ++i) result->counted |= x[i].counted;
    if (result && x.size() > 1) result->live = kNoValue;
    return result;
  });
}

template <bool (*holds)(int sign)>
Folded Comparison(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1) || args.At(0)->type.dtype != args.At(1)->type.dtype) return std::nullopt;
  const bool is_float = IsFloat(args.At(0)->type.dtype);
  return Map(args.in, DType::kBool, [is_float](const Row& x, const Dim& extent) -> OptionalElement {
    if (is_float) {
      if (std::isnan(x[0].real) || std::isnan(x[1].real)) return std::nullopt;
      return Element{holds((x[0].real > x[1].real) - (x[0].real < x[1].real))};
    }
    // A length is anything from 0 to its largest possible value. So a negative number is smaller,
    // and nothing else is known.
    for (size_t i = 0; i < 2; ++i)
      if (x[i].counted && (x[1 - i].counted || Compare(x[1 - i].integer, Dim(0)) != -1)) return std::nullopt;
    const Signs signs =
        SignsOf({x[0].integer - x[1].integer, 0, SaturatingAdd(x[0].per_index, -x[1].per_index)}, extent);
    for (int sign = signs.low; sign <= signs.high; ++sign)
      if (holds(sign) != holds(signs.low)) return std::nullopt;
    return Element{holds(signs.low)};
  });
}

template <double (*real)(double)>
Folded Real(const FoldArgs& args) {
  if (!args.At(0) || !IsFloat(args.At(0)->type.dtype)) return std::nullopt;
  const DType dtype = args.At(0)->type.dtype;
  return Map(args.in, dtype,
             [dtype](const Row& x, const Dim&) { return RealElement(dtype, real(x[0].real)); });
}

template <bool (*holds)(double)>
Folded RealTest(const FoldArgs& args) {
  if (!args.At(0) || !IsFloat(args.At(0)->type.dtype)) return std::nullopt;
  return Map(args.in, DType::kBool, [](const Row& x, const Dim&) { return Element{holds(x[0].real)}; });
}

// For operators whose result is not linear in the position.
template <OptionalDim (*f)(const Dim&, const Dim&)>
OptionalElement Fixed(const Element& a, const Element& b) {
  if (a.per_index != 0 || b.per_index != 0) return std::nullopt;
  const OptionalDim value = f(a.integer, b.integer);
  return value ? OptionalElement(Element{*value}) : std::nullopt;
}

template <int64_t (*f)(int64_t, int64_t)>
OptionalDim Bits(const Dim& a, const Dim& b) {
  return a.IsFixed() && b.IsFixed() ? OptionalDim(Dim(f(a.fixed, b.fixed))) : std::nullopt;
}
int64_t AndBits(int64_t a, int64_t b) { return a & b; }
int64_t OrBits(int64_t a, int64_t b) { return a | b; }
int64_t XorBits(int64_t a, int64_t b) { return a ^ b; }

double AddReals(double a, double b) { return a + b; }
double SubReals(double a, double b) { return a - b; }
double MulReals(double a, double b) { return a * b; }
double DivReals(double a, double b) { return a / b; }
double ModReals(double a, double b) { return std::fmod(a, b); }
double MaxReals(double a, double b) { return std::isnan(b) ? b : std::max(a, b); }
double MinReals(double a, double b) { return std::isnan(b) ? b : std::min(a, b); }
double PowReals(double a, double b) { return std::pow(a, b); }
double NoReals(double, double) { return std::nan(""); }  // And, Or: their operands are bool

bool IsEqual(int sign) { return sign == 0; }
bool IsLess(int sign) { return sign < 0; }
bool IsGreater(int sign) { return sign > 0; }
bool IsLessOrEqual(int sign) { return sign <= 0; }
bool IsGreaterOrEqual(int sign) { return sign >= 0; }

Folded Convert(const FoldArgs& args, DType to) {
  if (!args.At(0)) return std::nullopt;
  const bool from_float = IsFloat(args.At(0)->type.dtype);
  return Map({args.At(0)}, to, [from_float, to](const Row& x, const Dim& extent) -> OptionalElement {
    if (x[0].counted && (IsFloat(to) || to == DType::kBool)) return std::nullopt;
    if (IsFloat(to)) {
      if (from_float) return RealElement(to, x[0].real);
      if (!x[0].integer.IsFixed() || x[0].per_index != 0) return std::nullopt;
      return RealElement(to, static_cast<double>(x[0].integer.fixed));
    }
    if (to == DType::kBool) {
      if (from_float) return Element{Dim(x[0].real != 0)};
      const Signs signs = SignsOf(x[0], extent);
      if (signs.low == 0 && signs.high == 0) return Element{0};
      return signs.low > 0 || signs.high < 0 ? OptionalElement(Element{1}) : std::nullopt;
    }
    Element value = x[0];
    if (from_float) {
      // kTooLarge is exact in a double, so the comparison is.
      if (!(std::abs(x[0].real) < static_cast<double>(kTooLarge))) return std::nullopt;
      return Element{Dim(Clamped(static_cast<int64_t>(x[0].real), to))};
    }
    return InType(value, to);
  });
}

Folded Cast(const FoldArgs& args) {
  const std::optional<DType> to = FromOnnxType(args.attrs.Int("to"));
  return to ? Convert(args, *to) : std::nullopt;
}

Folded CastLike(const FoldArgs& args) {
  return args.At(1) ? Convert(args, args.At(1)->type.dtype) : std::nullopt;
}

Folded Identity(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  return std::vector<Known>{*args.At(0)};
}

Folded Negate(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const DType dtype = args.At(0)->type.dtype;
  return Map(args.in, dtype, [dtype](const Row& x, const Dim&) -> OptionalElement {
    if (IsFloat(dtype)) return Element{0, -x[0].real};
    return InType(SubElements(Element{0}, x[0]), dtype);
  });
}

Folded Absolute(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const DType dtype = args.At(0)->type.dtype;
  return Map(args.in, dtype, [dtype](const Row& x, const Dim& extent) -> OptionalElement {
    if (IsFloat(dtype)) return Element{0, std::abs(x[0].real)};
    const Signs signs = SignsOf(x[0], extent);
    if (signs.low >= 0) return Element{x[0].integer, 0, x[0].per_index};
    if (signs.high > 0) return std::nullopt;
    return InType(SubElements(Element{0}, x[0]), dtype);
  });
}

Folded Sign(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const bool is_float = IsFloat(args.At(0)->type.dtype);
  return Map(args.in, args.At(0)->type.dtype, [is_float](const Row& x, const Dim& extent) -> OptionalElement {
    if (is_float) return Element{0, std::isnan(x[0].real) ? x[0].real : (x[0].real > 0) - (x[0].real < 0)};
    const Signs signs = SignsOf(x[0], extent);
    return signs.low == signs.high ? OptionalElement(Element{signs.low}) : std::nullopt;
  });
}

Folded Not(const FoldArgs& args) {
  return Map(args.in, DType::kBool,
             [](const Row& x, const Dim&) { return Element{Dim(x[0].integer == Dim(0))}; });
}

Folded Where(const FoldArgs& args) {
  if (!args.At(1) || !args.At(2) || args.At(1)->type.dtype != args.At(2)->type.dtype) return std::nullopt;
  return Map(args.in, args.At(1)->type.dtype,
             [](const Row& x, const Dim&) { return x[0].integer == Dim(0) ? x[2] : x[1]; });
}

Folded Mod(const FoldArgs& args) {
  if (args.in.size() != 2 || !args.At(0)) return std::nullopt;
  const bool truncates = args.attrs.Int("fmod") != 0;
  if (IsFloat(args.At(0)->type.dtype) && !truncates) return std::nullopt;
  return truncates ? Arithmetic<Fixed<RemDims>, ModReals>(args) : Arithmetic<Fixed<ModDims>, ModReals>(args);
}

// Bounds: inputs from opset 11 on, attributes before.
Folded Clip(const FoldArgs& args) {
  if (!args.At(0) || args.in.size() == 1) return std::nullopt;
  FoldArgs pair{{args.At(0), args.At(1)}, args.attrs};
  Known low = *args.At(0);
  if (args.At(1)) {
    Folded above = Arithmetic<Fixed<MaxDims>, MaxReals>(pair);
    if (!above) return std::nullopt;
    low = std::move((*above)[0]);
  }
  if (!args.At(2)) return std::vector<Known>{std::move(low)};
  pair.in = {&low, args.At(2)};
  return Arithmetic<Fixed<MinDims>, MinReals>(pair);
}

double Reciprocal(double x) { return 1 / x; }
double Relu(double x) { return x < 0 ? 0 : x; }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
bool IsNan(double x) { return std::isnan(x); }

}  // namespace

const std::vector<FoldEntry>& ElementwiseFolds() {
  static const std::vector<FoldEntry> entries = {
      {"Add", 2, 2, Arithmetic<AddElements, AddReals>},
      {"Sum", 1, -1, Arithmetic<AddElements, AddReals>},
      {"Sub", 2, 2, Arithmetic<SubElements, SubReals>},
      {"Mul", 2, 2, Arithmetic<MulElements, MulReals>},
      {"Div", 2, 2, Arithmetic<Fixed<DivDims>, DivReals>},
      {"Mod", 2, 2, Mod},
      {"Max", 1, -1, Arithmetic<Fixed<MaxDims>, MaxReals>},
      {"Min", 1, -1, Arithmetic<Fixed<MinDims>, MinReals>},
      {"Clip", 1, 3, Clip},
      {"Pow", 2, 2, Arithmetic<Fixed<PowDims>, PowReals>},
      {"And", 2, 2, Arithmetic<Fixed<AndDims>, NoReals>},
      {"Or", 2, 2, Arithmetic<Fixed<OrDims>, NoReals>},
      {"Xor", 2, 2, Arithmetic<Fixed<XorDims>, NoReals>},
      {"BitwiseAnd", 2, 2, Arithmetic<Fixed<Bits<AndBits>>, NoReals>},
      {"BitwiseOr", 2, 2, Arithmetic<Fixed<Bits<OrBits>>, NoReals>},
      {"BitwiseXor", 2, 2, Arithmetic<Fixed<Bits<XorBits>>, NoReals>},
      {"Equal", 2, 2, Comparison<IsEqual>},
      {"Less", 2, 2, Comparison<IsLess>},
      {"Greater", 2, 2, Comparison<IsGreater>},
      {"LessOrEqual", 2, 2, Comparison<IsLessOrEqual>},
      {"GreaterOrEqual", 2, 2, Comparison<IsGreaterOrEqual>},
      {"Not", 1, 1, Not},
      {"Where", 3, 3, Where},
      {"Cast", 1, 1, Cast},
      {"CastLike", 2, 2, CastLike, /*types_from=*/1},
      {"Identity", 1, 1, Identity},
      {"Neg", 1, 1, Negate},
      {"Abs", 1, 1, Absolute},
      {"Sign", 1, 1, Sign},
      {"IsNaN", 1, 1, RealTest<IsNan>},
      {"Sqrt", 1, 1, Real<std::sqrt>},
      {"Exp", 1, 1, Real<std::exp>},
      {"Log", 1, 1, Real<std::log>},
      {"Floor", 1, 1, Real<std::floor>},
      {"Ceil", 1, 1, Real<std::ceil>},
      {"Erf", 1, 1, Real<std::erf>},
      {"Round", 1, 1, Real<std::nearbyint>},  // halves to even, as ONNX's
      {"Sin", 1, 1, Real<std::sin>},
      {"Cos", 1, 1, Real<std::cos>},
      {"Tan", 1, 1, Real<std::tan>},
      {"Asin", 1, 1, Real<std::asin>},
      {"Acos", 1, 1, Real<std::acos>},
      {"Atan", 1, 1, Real<std::atan>},
      {"Sinh", 1, 1, Real<std::sinh>},
      {"Cosh", 1, 1, Real<std::cosh>},
      {"Tanh", 1, 1, Real<std::tanh>},
      {"Asinh", 1, 1, Real<std::asinh>},
      {"Acosh", 1, 1, Real<std::acosh>},
      {"Atanh", 1, 1, Real<std::atanh>},
      {"Reciprocal", 1, 1, Real<Reciprocal>},
      {"Relu", 1, 1, Real<Relu>},
      {"Sigmoid", 1, 1, Real<Sigmoid>},
  };
  return entries;
}

}  // namespace act::onnx_import
