// Elementwise operators on known tensors. Integers are polynomials in N, so only what stays one folds.
#include <algorithm>
#include <cmath>

#include "compiler/import/fold_shapes.h"
#include "compiler/import/onnx_types.h"
#include "compiler/ops/op_table.h"

namespace act::onnx_import {
namespace {

using OptionalDim = std::optional<Dim>;

// Element by element over the broadcast of the operands.
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
    const auto fixed = FixedDims(dims);
    if (!fixed) return std::nullopt;
    for (const Known* known : in) operands.push_back(BroadcastElements(*known, *fixed));
    count = operands[0].size();
  }
  Known result{{dtype, dims}, {}};
  std::vector<Element> row(in.size());
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < in.size(); ++k) row[k] = operands[k][i];
    const std::optional<Element> element = f(row);
    if (!element) return std::nullopt;
    result.elements.push_back(*element);
  }
  return std::vector<Known>{std::move(result)};
}

// Both operands have one type: `integer` or `real` computes it.
template <OptionalDim (*integer)(const Dim&, const Dim&), double (*real)(double, double)>
Folded Arithmetic(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1)) return std::nullopt;
  const DType dtype = args.At(0)->type.dtype;
  if (args.At(1)->type.dtype != dtype) return std::nullopt;
  return Map(args.in, dtype, [dtype](const std::vector<Element>& x) -> std::optional<Element> {
    if (IsFloat(dtype)) return RealElement(dtype, real(x[0].real, x[1].real));
    const OptionalDim value = integer(x[0].integer, x[1].integer);
    if (!value) return std::nullopt;
    return Element{*value, 0};
  });
}

template <bool (*holds)(int sign)>
Folded Comparison(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1) || args.At(0)->type.dtype != args.At(1)->type.dtype) return std::nullopt;
  const bool is_float = IsFloat(args.At(0)->type.dtype);
  return Map(args.in, DType::kBool, [is_float](const std::vector<Element>& x) -> std::optional<Element> {
    if (is_float) {
      if (std::isnan(x[0].real) || std::isnan(x[1].real)) return std::nullopt;
      return Element{holds((x[0].real > x[1].real) - (x[0].real < x[1].real)), 0};
    }
    const std::optional<int> sign = Compare(x[0].integer, x[1].integer);
    if (!sign) return std::nullopt;
    return Element{holds(*sign), 0};
  });
}

template <double (*real)(double)>
Folded Real(const FoldArgs& args) {
  if (!args.At(0) || !IsFloat(args.At(0)->type.dtype)) return std::nullopt;
  const DType dtype = args.At(0)->type.dtype;
  return Map(args.in, dtype, [dtype](const std::vector<Element>& x) -> std::optional<Element> {
    return RealElement(dtype, real(x[0].real));
  });
}

OptionalDim AddDims(const Dim& a, const Dim& b) { return a + b; }
OptionalDim SubDims(const Dim& a, const Dim& b) { return a - b; }
OptionalDim MulDims(const Dim& a, const Dim& b) {
  const Dim product = a * b;
  if (product.TooLarge()) return std::nullopt;
  return product;
}
// Beyond these bounds a quotient may overflow (the smallest integer by -1).
bool CanDivide(const Dim& a, const Dim& b) {
  for (const int64_t v : {a.fixed, a.per_batch, a.per_batch2, b.fixed, b.per_batch, b.per_batch2})
    if (v <= -kTooLarge || v >= kTooLarge) return false;
  return b != Dim(0);
}
OptionalDim DivDims(const Dim& a, const Dim& b) {
  if (!CanDivide(a, b)) return std::nullopt;
  if (a.IsFixed() && b.IsFixed()) return Dim(a.fixed / b.fixed);  // toward zero, as ONNX's
  return DivideExact(a, b);
}
OptionalDim ModDims(const Dim& a, const Dim& b) {  // sign of the divisor (Mod with fmod = 0)
  if (!CanDivide(a, b)) return std::nullopt;
  if (a.IsFixed() && b.IsFixed()) return Dim((a.fixed % b.fixed + b.fixed) % b.fixed);
  return DivideExact(a, b) ? OptionalDim(Dim(0)) : std::nullopt;
}
OptionalDim MaxDims(const Dim& a, const Dim& b) {
  const auto sign = Compare(a, b);
  return sign ? OptionalDim(*sign >= 0 ? a : b) : std::nullopt;
}
OptionalDim MinDims(const Dim& a, const Dim& b) {
  const auto sign = Compare(a, b);
  return sign ? OptionalDim(*sign <= 0 ? a : b) : std::nullopt;
}
OptionalDim PowDims(const Dim& a, const Dim& b) {
  if (!b.IsFixed() || b.fixed < 0 || b.fixed > 62) return std::nullopt;
  Dim power(1);
  for (int64_t i = 0; i < b.fixed; ++i) power = power * a;
  return power.TooLarge() ? std::nullopt : OptionalDim(power);
}
OptionalDim AndDims(const Dim& a, const Dim& b) { return Dim(a != Dim(0) && b != Dim(0)); }
OptionalDim OrDims(const Dim& a, const Dim& b) { return Dim(a != Dim(0) || b != Dim(0)); }

double AddReals(double a, double b) { return a + b; }
double SubReals(double a, double b) { return a - b; }
double MulReals(double a, double b) { return a * b; }
double DivReals(double a, double b) { return a / b; }
double ModReals(double a, double b) { return std::fmod(a, b); }
double MaxReals(double a, double b) { return std::max(a, b); }
double MinReals(double a, double b) { return std::min(a, b); }
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
  return Map({args.At(0)}, to, [from_float, to](const std::vector<Element>& x) -> std::optional<Element> {
    if (IsFloat(to)) {
      if (from_float) return RealElement(to, x[0].real);
      if (!x[0].integer.IsFixed()) return std::nullopt;
      return RealElement(to, static_cast<double>(x[0].integer.fixed));
    }
    Dim value = x[0].integer;
    if (from_float) {
      // kTooLarge is exact in a double, so the comparison is.
      if (!(std::abs(x[0].real) < static_cast<double>(kTooLarge))) return std::nullopt;
      value = Dim(static_cast<int64_t>(x[0].real));
    }
    if (to != DType::kBool) return Element{value, 0};
    if (from_float) return Element{Dim(x[0].real != 0), 0};
    const std::optional<int> sign = Compare(value, Dim(0));
    if (!sign) return std::nullopt;
    return Element{Dim(*sign != 0), 0};
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
  return Map(args.in, dtype, [](const std::vector<Element>& x) -> std::optional<Element> {
    return Element{Dim(0) - x[0].integer, -x[0].real};
  });
}

Folded Absolute(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  return Map(args.in, args.At(0)->type.dtype, [](const std::vector<Element>& x) -> std::optional<Element> {
    const std::optional<int> sign = Compare(x[0].integer, Dim(0));
    if (!sign) return std::nullopt;
    return Element{*sign < 0 ? Dim(0) - x[0].integer : x[0].integer, std::abs(x[0].real)};
  });
}

Folded Not(const FoldArgs& args) {
  return Map(args.in, DType::kBool, [](const std::vector<Element>& x) -> std::optional<Element> {
    return Element{Dim(x[0].integer == Dim(0)), 0};
  });
}

Folded Where(const FoldArgs& args) {
  if (!args.At(1) || !args.At(2) || args.At(1)->type.dtype != args.At(2)->type.dtype) return std::nullopt;
  return Map(args.in, args.At(1)->type.dtype, [](const std::vector<Element>& x) -> std::optional<Element> {
    return x[0].integer == Dim(0) ? x[2] : x[1];
  });
}

double Reciprocal(double x) { return 1 / x; }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

const std::vector<FoldEntry>& ElementwiseFolds() {
  static const std::vector<FoldEntry> entries = {
      {"Add", Arithmetic<AddDims, AddReals>},
      {"Sub", Arithmetic<SubDims, SubReals>},
      {"Mul", Arithmetic<MulDims, MulReals>},
      {"Div", Arithmetic<DivDims, DivReals>},
      {"Mod", Arithmetic<ModDims, ModReals>},
      {"Max", Arithmetic<MaxDims, MaxReals>},
      {"Min", Arithmetic<MinDims, MinReals>},
      {"Pow", Arithmetic<PowDims, PowReals>},
      {"And", Arithmetic<AndDims, NoReals>},
      {"Or", Arithmetic<OrDims, NoReals>},
      {"Equal", Comparison<IsEqual>},
      {"Less", Comparison<IsLess>},
      {"Greater", Comparison<IsGreater>},
      {"LessOrEqual", Comparison<IsLessOrEqual>},
      {"GreaterOrEqual", Comparison<IsGreaterOrEqual>},
      {"Not", Not},
      {"Where", Where},
      {"Cast", Cast},
      {"CastLike", CastLike},
      {"Identity", Identity},
      {"Neg", Negate},
      {"Abs", Absolute},
      {"Sqrt", Real<std::sqrt>},
      {"Exp", Real<std::exp>},
      {"Log", Real<std::log>},
      {"Floor", Real<std::floor>},
      {"Ceil", Real<std::ceil>},
      {"Erf", Real<std::erf>},
      {"Tanh", Real<std::tanh>},
      {"Sin", Real<std::sin>},
      {"Cos", Real<std::cos>},
      {"Reciprocal", Real<Reciprocal>},
      {"Sigmoid", Real<Sigmoid>},
  };
  return entries;
}

}  // namespace act::onnx_import
