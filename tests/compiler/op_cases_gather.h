// Rows of lookups and scatters whose positions are data.
#pragma once

#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

// The position in the large tensor that `index` gives for the element of the small one at `at`.
inline Ints Named(const Tensor& index, const Ints& at, size_t axis, int64_t extent) {
  Ints to = at;
  const auto i = static_cast<int64_t>(index.Broadcast(at));
  to[axis] = i < 0 ? i + extent : i;
  return to;
}

struct LookupRow {
  Ints whole, index, part;
  int64_t axis = 0;
  bool live = false;
  std::vector<size_t> batched = {};
};

inline Operand IndexOf(const LookupRow& row) {
  const auto extent = static_cast<double>(row.whole[static_cast<size_t>(row.axis)]);
  return {row.index, -extent, extent, Kind::kIndex};
}
inline Operand LiveOf(const LookupRow& row) {
  return {{row.part[static_cast<size_t>(row.axis)]}, -1, 1, Kind::kFlag};
}

inline TensorType TypeAt(const GraphBuilder& b, ValueId like, const Ints& dims) {
  TensorType type{DType::kFloat32, {dims.begin(), dims.end()}};
  if (!dims.empty() && !b.type(like).dims[0].IsFixed()) type.dims[0] = b.type(like).dims[0];
  return type;
}

// Tuples of indices, after the sample axis: y[n, i] = x[n, t[n, i, 0], t[n, i, 1]].
inline OpCase TupleCase() {
  return {"Gather by tuples",
          {{{2, 4, 5}}, {{2, 7, 1}, -4, 4, Kind::kIndex}, {{2, 7, 1}, -5, 5, Kind::kIndex}},
          [](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
            const Dim n = b.type(v[0]).dims[0];
            const ValueId tuples = Take(b.Add1("Concat", {v[1], v[2]}, Attrs({{"axis", int64_t{2}}})));
            const ValueId flat =
                Take(b.Add1("FlatIndex", {tuples}, Attrs({{"extents", Ints{4, 0, 0, 5, 0, 0}}})));
            const ValueId x = Take(b.Reshape(v[0], {n, 20}));
            return b.AddTyped("Gather", {x, flat}, {DType::kFloat32, {n, 7}}, Attrs({{"axis", int64_t{1}}}),
                              "tested");
          },
          [](const Tensors& t) {
            return truth::Make({2, 7}, [&](const Ints& i) {
              const auto a = static_cast<int64_t>(t[1].at({i[0], i[1], 0})),
                         b = static_cast<int64_t>(t[2].at({i[0], i[1], 0}));
              return t[0].at({i[0], a < 0 ? a + 4 : a, b < 0 ? b + 5 : b});
            });
          },
          {0, 1, 2}};
}

// x without the rows whose flag is 0: the rows that NonZero finds are taken from x and put back.
inline OpCase NonZeroCase() {
  return {"NonZero",
          {{{7, 3}}, {{7}, -1, 1, Kind::kFlag}},
          [](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
            const Values found = Take(b.Add("NonZero", {v[1]}, {}, "tested", 2));
            const ValueId index = Take(b.Reshape(found[0], {7, 1}));
            const Attributes attrs = Attrs({{"axis", int64_t{0}}, {"reduction", std::string("add")}});
            const ValueId rows = Take(b.AddTyped("Gather", {v[0], index}, b.type(v[0]), attrs, "rows"));
            return b.AddTyped("Scatter", {rows, index, kNoValue, found[1]}, b.type(v[0]), attrs, "back");
          },
          [](const Tensors& t) {
            return truth::Make({7, 3}, [&](const Ints& i) { return t[1].at({i[0]}) * t[0].at(i); });
          }};
}

// x times what a Range counts: 1 - 2 i.
inline OpCase RangeCase() {
  return {"Range",
          {{{5, 3}}},
          [](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
            const Dim n = b.type(v[0]).dims[0];
            const ValueId range =
                Take(b.AddTyped("Range", {}, {DType::kInt64, {n}},
                                Attrs({{"start", Ints{1, 0, 0}}, {"step", int64_t{-2}}}), "tested"));
            const auto to = static_cast<int64_t>(DType::kFloat32);
            const ValueId numbers = Take(b.Add1("Cast", {range}, Attrs({{"to", to}})));
            return b.Add1("Mul", {v[0], Take(b.Reshape(numbers, {n, 1}))});
          },
          [](const Tensors& t) {
            return truth::Make({5, 3},
                               [&](const Ints& i) { return t[0].at(i) * static_cast<double>(1 - 2 * i[0]); });
          },
          {0}};
}

inline std::vector<OpCase> GatherCases() {
  const std::vector<LookupRow> rows = {
      {{7, 5}, {4, 1}, {4, 5}},                             // an embedding
      {{7, 5}, {40, 1}, {40, 5}},                           // most rows occur several times
      {{7, 130}, {9, 1}, {9, 130}},                         // long rows
      {{9, 3}, {12, 1}, {12, 3}, 0, true},                  // some indices are ignored
      {{6}, {10}, {10}},                                    // rows are single numbers
      {{2, 6, 3}, {1, 4, 1}, {2, 4, 3}, 1, false, {0}},     // indexed after the sample axis
      {{2, 6, 3}, {2, 4, 1}, {2, 4, 3}, 1, false, {0, 1}},  // each sample has indices of its own
      {{2, 3, 6}, {2, 3, 4}, {2, 3, 4}, 2, true, {0, 1}},
      {{5, 4}, {3, 4}, {3, 4}},  // each element has an index of its own
      {{5, 4}, {3, 2}, {3, 2}},  // fewer columns than x has
      {{3, 5, 4}, {2, 1, 2}, {2, 5, 2}},
      {{4, 3, 2}, {1, 1, 5}, {4, 3, 5}, 2},
      {{4, 3}, {0, 1}, {0, 3}},
      {{1, 3}, {1, 1}, {1, 3}},
      {{5, 0}, {4, 1}, {4, 0}},
  };
  std::vector<OpCase> cases;
  for (const LookupRow& row : rows) {
    OpCase c{
        "Gather",
        {{row.whole}, IndexOf(row)},
        [row](GraphBuilder& b, const Values& v) {
          return b.AddTyped("Gather", v, TypeAt(b, v[0], row.part), Attrs({{"axis", row.axis}}), "tested");
        },
        [row](const Tensors& t) {
          const auto axis = static_cast<size_t>(row.axis);
          return truth::Make(row.part, [&](const Ints& i) {
            if (row.live && t[2].at({i[axis]}) == 0) return 0.0;
            return t[0].at(Named(t[1], i, axis, row.whole[axis]));
          });
        },
        row.batched};
    if (row.live) c.operands.push_back(LiveOf(row));
    cases.push_back(std::move(c));
  }
  cases.push_back(TupleCase());
  cases.push_back(NonZeroCase());
  cases.push_back(RangeCase());
  return cases;
}

// into: scatters into operand 2, otherwise into zeros.
inline OpCase ScatterCase(const LookupRow& row, const std::string& reduction, bool into) {
  OpCase c{"Scatter " + reduction,
           {{row.part}, IndexOf(row)},
           nullptr,
           [row, reduction, into](const Tensors& t) {
             const auto axis = static_cast<size_t>(row.axis);
             Tensor y = into ? t[2] : Tensor(row.whole);
             truth::ForEach(row.part, [&](const Ints& i) {
               if (row.live && t.back().at({i[axis]}) == 0) return;
               double& to = y.at(Named(t[1], i, axis, row.whole[axis]));
               const double x = t[0].at(i);
               to = reduction == "none"  ? x
                    : reduction == "add" ? to + x
                    : reduction == "mul" ? to * x
                    : reduction == "min" ? std::min(to, x)
                                         : std::max(to, x);
             });
             return y;
           },
           row.batched};
  if (into) c.operands.push_back({row.whole});
  if (row.live) c.operands.push_back(LiveOf(row));
  c.build = [row, reduction, into](GraphBuilder& b, const Values& v) {
    Values inputs{v[0], v[1]};
    if (into || row.live) inputs.push_back(into ? v[2] : kNoValue);
    if (row.live) inputs.push_back(v.back());
    return b.AddTyped("Scatter", inputs, TypeAt(b, v[0], row.whole),
                      Attrs({{"axis", row.axis}, {"reduction", reduction}}), "tested");
  };
  return c;
}

inline std::vector<OpCase> ScatterCases() {
  // One index along the axis, so that no two updates are of one element. ONNX does not say which of
  // two such updates remains.
  const std::vector<LookupRow> single = {{{5, 4}, {1, 4}, {1, 4}},
                                         {{5, 40}, {1, 1}, {1, 40}},
                                         {{3, 5, 2}, {3, 1, 2}, {3, 1, 2}, 1, false, {0, 1, 2}},
                                         {{6}, {1}, {1}},
                                         {{6, 2}, {1, 1}, {1, 2}, 0, true},
                                         {{6, 2}, {0, 1}, {0, 2}}};
  const std::vector<LookupRow> many = {{{5, 4}, {9, 1}, {9, 4}},
                                       {{5, 4}, {9, 4}, {9, 4}},
                                       {{5, 4}, {9, 2}, {9, 2}},
                                       {{5, 140}, {3, 1}, {3, 140}},
                                       {{5, 3}, {12, 1}, {12, 3}, 0, true},
                                       {{4}, {20}, {20}},
                                       {{2, 5, 3}, {2, 7, 1}, {2, 7, 3}, 1, false, {0, 1, 2}},
                                       {{3, 2, 4}, {1, 1, 6}, {3, 2, 6}, 2, true},
                                       {{4, 2}, {0, 1}, {0, 2}}};
  std::vector<OpCase> cases;
  for (const bool into : {false, true}) {
    for (LookupRow row : single) {
      if (!into && row.batched.size() == 3) row.batched = {0, 1};
      cases.push_back(ScatterCase(row, "none", into));
    }
    for (LookupRow row : many) {
      if (!into && row.batched.size() == 3) row.batched = {0, 1};
      for (const char* reduction : {"add", "min", "max"}) cases.push_back(ScatterCase(row, reduction, into));
    }
  }
  // A product has no gradient here. It is computed from given numbers, and something that is
  // trained comes after it.
  OpCase product = ScatterCase(many[0], "mul", true);
  for (Operand& o : product.operands)
    if (o.kind == Kind::kTrained) o.kind = Kind::kFixed;
  product.operands.push_back({{5, 4}});
  product.build = [inner = product.build](GraphBuilder& b, const Values& v) {
    return b.Add1("Mul", {Take(inner(b, {v[0], v[1], v[2]})), v[3]});
  };
  product.truth = [inner = product.truth](const Tensors& t) {
    return truth::Map(inner({t[0], t[1], t[2]}), t[3], [](double x, double y) { return x * y; });
  };
  cases.push_back(std::move(product));
  return cases;
}

}  // namespace act::gradient_case
