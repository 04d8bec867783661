// Rows of operators that move elements, and of matrix products.
#pragma once

#include <array>

#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

inline Dims FixedDims(const Ints& dims) { return {dims.begin(), dims.end()}; }

inline std::vector<OpCase> ReshapeAndTransposeCases() {
  std::vector<OpCase> cases;
  for (const auto& [from, to] : std::vector<std::pair<Ints, Ints>>{{{2, 3, 5}, {6, 5}},
                                                                   {{6}, {1, 2, 3}},
                                                                   {{1}, {}},
                                                                   {{}, {1, 1}},
                                                                   {{4, 6}, {2, 2, 3, 2}},
                                                                   {{0, 3}, {3, 0}}})
    cases.push_back({"Reshape",
                     {{from}},
                     [to = to](GraphBuilder& b, const Values& v) { return b.Reshape(v[0], FixedDims(to)); },
                     [to = to](const Tensors& t) { return truth::Reshape(t[0], to); }});
  cases.push_back({"Reshape of samples",
                   {{{2, 3, 5}}},
                   [](GraphBuilder& b, const Values& v) {
                     return b.Reshape(v[0], {b.type(v[0]).dims[0] * Dim(3), 5});
                   },
                   [](const Tensors& t) {
                     return truth::Reshape(t[0], {6, 5});
                   },
                   {0}});
  // As in PyTorch's modules: only elementwise nodes are between the two reshapes, so all of them
  // may share one storage.
  cases.push_back(
      {"Reshape there and back",
       {{{2, 3, 5}}},
       [](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
         const Dims dims = b.type(v[0]).dims;
         const ValueId flat = Take(b.Reshape(v[0], {dims[0], 15}));
         return b.Reshape(Take(b.Add1("Tanh", {Take(b.Add1("Square", {flat}))})), dims);
       },
       [](const Tensors& t) { return truth::Map(t[0], [](double x) { return std::tanh(x * x); }); },
       {0}});
  for (const auto& [from, to] : std::vector<std::pair<Ints, Ints>>{
           {{3, 1}, {3, 5}}, {{5}, {2, 3, 5}}, {{}, {2, 3}}, {{1, 3, 1}, {2, 3, 4}}, {{1}, {1, 1}}})
    cases.push_back({"Expand",
                     {{from}},
                     [to = to](GraphBuilder& b, const Values& v) { return b.Expand(v[0], FixedDims(to)); },
                     [to = to](const Tensors& t) {
                       return truth::Make(to, [&t](const Ints& i) { return t[0].Broadcast(i); });
                     }});
  cases.push_back({"Expand of samples",
                   {{{3, 1, 2}}},
                   [](GraphBuilder& b, const Values& v) {
                     return b.Expand(v[0], {b.type(v[0]).dims[0], 4, 2});
                   },
                   [](const Tensors& t) {
                     return truth::Make({3, 4, 2}, [&t](const Ints& i) { return t[0].Broadcast(i); });
                   },
                   {0}});
  for (const Ints& dims : std::vector<Ints>{{1, 5, 1}, {3, 1, 4}, {2, 0, 3}, {0, 1, 2}})
    cases.push_back({"Transpose with extents 0 or 1",
                     {{dims}},
                     [](GraphBuilder& b, const Values& v) {
                       return b.Transpose(v[0], {2, 0, 1});
                     },
                     [](const Tensors& t) {
                       return truth::Transpose(t[0], {2, 0, 1});
                     }});
  for (const Ints& perm : std::vector<Ints>{{0},
                                            {1, 0},
                                            {0, 2, 1},
                                            {2, 0, 1},
                                            {2, 1, 0},
                                            {0, 2, 3, 1},
                                            {0, 3, 1, 2},
                                            {3, 2, 1, 0},
                                            {1, 0, 3, 2, 4}}) {
    const Ints all{2, 3, 4, 5, 2}, dims(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(perm.size()));
    cases.push_back({"Transpose",
                     {{dims}},
                     [perm](GraphBuilder& b, const Values& v) { return b.Transpose(v[0], perm); },
                     [perm](const Tensors& t) { return truth::Transpose(t[0], perm); },
                     {0}});
  }
  return cases;
}

inline OpCase ConcatCase(const std::vector<Ints>& shapes, int64_t axis, std::vector<size_t> batched) {
  OpCase c{"Concat", {}, One("Concat", Attrs({{"axis", axis}})), nullptr, std::move(batched)};
  for (const Ints& dims : shapes) c.operands.push_back({dims});
  c.truth = [axis](const Tensors& t) {
    const auto a = static_cast<size_t>(axis);
    Ints dims = t[0].dims;
    for (size_t i = 1; i < t.size(); ++i) dims[a] += t[i].dim(a);
    return truth::Make(dims, [&](Ints i) {
      size_t from = 0;
      while (i[a] >= t[from].dim(a)) i[a] -= t[from++].dim(a);
      return t[from].at(i);
    });
  };
  return c;
}

inline OpCase SliceCase(const Ints& from, const Ints& starts, const Ints& steps, const Ints& extents,
                        std::vector<size_t> batched = {}) {
  return {"Slice",
          {{from}},
          [=](GraphBuilder& b, const Values& v) {
            Dims dims = FixedDims(extents);
            if (!b.type(v[0]).dims[0].IsFixed()) dims[0] = b.type(v[0]).dims[0];
            return b.Slice(v[0], starts, dims, steps, "tested");
          },
          [=](const Tensors& t) {
            return truth::Make(extents, [&](Ints i) {
              for (size_t a = 0; a < i.size(); ++a) i[a] = starts[a] + i[a] * steps[a];
              return t[0].at(i);
            });
          },
          std::move(batched)};
}

// x + 3 rotated(x), where the halves of the last axis change places and one its sign (rotary embeddings).
inline OpCase RotatedHalvesCase(const Ints& dims, std::vector<size_t> batched = {}) {
  const int64_t half = dims.back() / 2;
  return {"Rotated halves",
          {{dims}},
          [=](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
            Dims part = b.type(v[0]).dims;
            part.back() = half;
            Ints at(dims.size(), 0);
            const Ints steps(dims.size(), 1);
            const ValueId first = Take(b.Slice(v[0], at, part, steps, "first"));
            at.back() = half;
            const ValueId last = Take(b.Slice(v[0], at, part, steps, "last"));
            const ValueId rotated =
                Take(b.Add1("Concat", {Take(b.Add1("Neg", {last})), first},
                            Attrs({{"axis", static_cast<int64_t>(dims.size()) - 1}}), "rotated"));
            return b.Add1("Add", {v[0], Take(b.Add1("Mul", {rotated, b.Scalar(3)}))}, {}, "tested");
          },
          [=](const Tensors& t) {
            return truth::Make(dims, [&](Ints i) {
              const double x = t[0].at(i);
              const bool is_first = i.back() < half;
              i.back() += is_first ? half : -half;
              return x + 3 * (is_first ? -t[0].at(i) : t[0].at(i));
            });
          },
          std::move(batched)};
}

inline std::vector<OpCase> StructureCases() {
  std::vector<OpCase> cases = ReshapeAndTransposeCases();
  cases.push_back(RotatedHalvesCase({3, 2, 4}, {0}));
  cases.push_back(RotatedHalvesCase({1, 2}));
  cases.push_back(ConcatCase({{2, 3}, {4, 3}, {1, 3}}, 0, {}));
  cases.push_back(ConcatCase({{2, 3, 2}, {2, 1, 2}}, 1, {0, 1}));
  cases.push_back(ConcatCase({{2, 3, 2}, {2, 3, 1}, {2, 3, 4}}, 2, {0, 1, 2}));
  cases.push_back(ConcatCase({{2, 3}}, 1, {0}));
  cases.push_back(ConcatCase({{2, 0}, {2, 3}}, 1, {0, 1}));
  cases.push_back({"Concat of the same tensor twice",
                   {{{2, 3}}},
                   [](GraphBuilder& b, const Values& v) {
                     return b.Add1("Concat", {v[0], v[0]}, Attrs({{"axis", int64_t{1}}}));
                   },
                   [](const Tensors& t) {
                     return truth::Make({2, 6}, [&t](const Ints& i) { return t[0].at({i[0], i[1] % 3}); });
                   },
                   {0}});
  cases.push_back(SliceCase({3, 7}, {0, 2}, {1, 1}, {3, 4}, {0}));
  cases.push_back(SliceCase({3, 7}, {2, 6}, {-1, -3}, {3, 3}));
  cases.push_back(SliceCase({3, 7}, {0, 1}, {1, 2}, {3, 3}, {0}));
  cases.push_back(SliceCase({3, 7, 2}, {0, 6, 1}, {1, -2, 1}, {3, 4, 1}, {0}));
  cases.push_back(SliceCase({4}, {1}, {1}, {0}));
  return cases;
}

inline Tensor Product(const Tensor& a, bool ta, const Tensor& b, bool tb) {
  const auto extents = [](const Tensor& t, bool transposed) {
    const size_t r = t.rank();
    return std::pair(t.dim(transposed ? r - 1 : r - 2), t.dim(transposed ? r - 2 : r - 1));
  };
  const auto [rows, inner] = extents(a, ta);
  const auto [inner_b, columns] = extents(b, tb);
  EXPECT_EQ(inner, inner_b);
  Tensor batch_a(Ints(a.dims.begin(), a.dims.end() - 2)), batch_b(Ints(b.dims.begin(), b.dims.end() - 2));
  Ints dims = truth::BroadcastDims({batch_a, batch_b});
  dims.push_back(rows);
  dims.push_back(columns);
  return truth::Make(dims, [&, k_end = inner](const Ints& i) {
    double sum = 0;
    Ints ia = i, ib = i;
    const size_t r = i.size();
    for (int64_t k = 0; k < k_end; ++k) {
      ia[r - 2] = ta ? k : i[r - 2];
      ia[r - 1] = ta ? i[r - 2] : k;
      ib[r - 2] = tb ? i[r - 1] : k;
      ib[r - 1] = tb ? k : i[r - 1];
      // Broadcast() reads index 0 of axes of extent 1. This is right for the batch axes. A matrix
      // axis of extent 1 only has index 0 anyway.
      sum += a.Broadcast(ia) * b.Broadcast(ib);
    }
    return sum;
  });
}

inline std::vector<OpCase> MatMulCases() {
  struct Row {
    Ints a, b;  // untransposed
    // The operands whose leading axis is not a matrix axis that a transposition moves.
    std::vector<size_t> batched;
  };
  const std::vector<Row> rows = {
      {{3, 4}, {4, 5}, {}},
      {{2, 3, 4}, {4, 5}, {0}},  // a linear layer over tokens
      {{2, 3, 4}, {2, 4, 5}, {0, 1}},
      {{3, 4}, {2, 4, 5}, {1}},
      {{2, 1, 3, 4}, {5, 4, 6}, {0}},
      {{1, 3, 4}, {2, 4, 5}, {1}},
      {{2, 3, 2, 4}, {2, 3, 4, 2}, {0, 1}},  // attention: samples, heads
      {{1, 1}, {1, 1}, {}},
      {{3, 1}, {1, 5}, {}},
      {{1, 7}, {7, 1}, {}},
      {{0, 4}, {4, 5}, {}},
      {{3, 0}, {0, 5}, {}},
  };
  std::vector<OpCase> cases;
  for (const Row& row : rows)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        Ints a = row.a, b = row.b;
        if (ta) std::swap(a[a.size() - 1], a[a.size() - 2]);
        if (tb) std::swap(b[b.size() - 1], b[b.size() - 2]);
        cases.push_back({std::string("MatMul ") + (ta ? "At " : "A ") + (tb ? "Bt " : "B ") +
                             ::testing::PrintToString(row.a) + ::testing::PrintToString(row.b),
                         {{a}, {b}},
                         One("MatMul", Attrs({{"trans_a", int64_t{ta}}, {"trans_b", int64_t{tb}}})),
                         [ta, tb](const Tensors& t) { return Product(t[0], ta, t[1], tb); },
                         row.batched});
      }
  for (const Ints& a : {Ints{3, 4}, Ints{2, 3, 4}, Ints{0, 4}})
    cases.push_back({"MatMul with a bias " + ::testing::PrintToString(a),
                     {{a}, {{5, 4}}, {{5}}},
                     One("MatMul", Attrs({{"trans_b", int64_t{1}}})),
                     [](const Tensors& t) {
                       Tensor y = Product(t[0], false, t[1], true);
                       truth::ForEach(y.dims, [&](const Ints& at) {
                         y.at(at) += t[2].data[static_cast<size_t>(at.back())];
                       });
                       return y;
                     },
                     {0}});
  cases.push_back({"MatMul of samples",
                   {{{3, 4}}, {{4, 5}}},
                   One("MatMul"),
                   [](const Tensors& t) { return Product(t[0], false, t[1], false); },
                   {0}});
  cases.push_back({"MatMul of samples, transposed weight",
                   {{{3, 4}}, {{5, 4}}},
                   One("MatMul", Attrs({{"trans_b", int64_t{1}}})),
                   [](const Tensors& t) { return Product(t[0], false, t[1], true); },
                   {0}});
  cases.push_back({"MatMul with itself",
                   {{{4, 4}}},
                   [](GraphBuilder& b, const Values& v) {
                     return b.Add1("MatMul", {v[0], v[0]});
                   },
                   [](const Tensors& t) { return Product(t[0], false, t[0], false); }});
  return cases;
}

}  // namespace act::gradient_case
