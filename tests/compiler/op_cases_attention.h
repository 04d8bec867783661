// Rows of softmax and attention.
#pragma once

#include "tests/compiler/op_cases_conv.h"

namespace act::gradient_case {

// In logical order: q [B.., H, Tq, D], k [B.., Hkv, Tk, D], v [B.., Hkv, Tk, Dv].
struct AttentionRow {
  std::string name;
  Ints q, k, v;
  Ints perm_q = {}, perm_k = {}, perm_v = {}, perm_o = {};  // empty: axes stay as they are
  Ints bias = {}, mask = {};                                // empty: there is none
  double scale = .5;
  int64_t window = 0;  // > 0: a query sees so many keys, up to the last one that `causal` leaves
  bool causal = false;
  int64_t offset = 0;
  double softcap = 0;
  std::string empty_row = "nan";  // the result of a query that sees no key
  std::vector<size_t> batched = {};
  int64_t packed = -1;  // the axis along which q, k and v are packed into one operand
};

inline Ints InverseOf(const Ints& perm) {
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}
inline Ints Permuted(const Ints& dims, const Ints& perm) {
  Ints result;
  for (int64_t axis : perm) result.push_back(dims[static_cast<size_t>(axis)]);
  return result;
}

// Softmax of a row. NaN and -infinity behave as in numpy.
inline std::vector<double> SoftmaxOf(std::vector<double> row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double& x : row) sum += x = std::exp(x - max);
  for (double& x : row) x /= sum;
  return row;
}

inline Tensor AttentionTruth(const AttentionRow& row, const Tensors& t) {
  const auto logical = [](const Tensor& x, const Ints& perm) {
    return perm.empty() ? x : truth::Transpose(x, perm);
  };
  const Tensor q = logical(t[0], row.perm_q), k = logical(t[1], row.perm_k), v = logical(t[2], row.perm_v);
  const size_t rank = q.rank();
  const int64_t keys = k.dim(rank - 2), group = q.dim(rank - 3) / k.dim(rank - 3);
  const bool has_bias = !row.bias.empty(), has_mask = !row.mask.empty();
  Ints lead(q.dims.begin(), q.dims.end() - 1), result = q.dims;
  result.back() = v.dims.back();
  Tensor o(result);
  truth::ForEach(lead, [&](const Ints& at) {  // one query of one head
    Ints kv(at.begin(), at.end() - 1);
    kv.back() /= group;
    std::vector<double> scores;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t d = 0; d < q.dims.back(); ++d) score += q.at(With(at, d)) * k.at(With(With(kv, j), d));
      score *= row.scale;
      if (row.softcap > 0) score = row.softcap * std::tanh(score / row.softcap);
      if (has_bias) score += t[3].Broadcast(With(at, j));
      const bool hidden = (row.causal && j > at.back() + row.offset) ||
                          (has_mask && t.back().Broadcast(With(at, j)) == 0) ||
                          (row.window > 0 && j <= at.back() + row.offset - row.window);
      if (hidden) score = row.empty_row == "mean" ? -1e30 : -INFINITY;
      scores.push_back(score);
    }
    std::vector<double> p = SoftmaxOf(scores);
    const bool empty = std::all_of(scores.begin(), scores.end(), [](double x) { return x == -INFINITY; });
    if (empty && row.empty_row == "zero") std::fill(p.begin(), p.end(), 0);
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t d = 0; d < result.back(); ++d)
        o.at(With(at, d)) += p[static_cast<size_t>(j)] * v.at(With(With(kv, j), d));
  });
  return row.perm_o.empty() ? o : truth::Transpose(o, InverseOf(row.perm_o));
}

// The operands, with the first one cut into q, k and v.
inline Tensors Unpacked(const AttentionRow& row, const Tensors& t) {
  Ints dims = t[0].dims;
  dims.erase(dims.begin() + row.packed);
  Tensors operands;
  for (int64_t i = 0; i < 3; ++i)
    operands.push_back(truth::Make(dims, [&](Ints at) {
      at.insert(at.begin() + row.packed, i);
      return t[0].at(at);
    }));
  operands.insert(operands.end(), t.begin() + 1, t.end());
  return operands;
}

inline OpCase AttentionCase(const AttentionRow& row) {
  const auto stored = [](const Ints& dims, const Ints& perm) {
    return perm.empty() ? dims : Permuted(dims, InverseOf(perm));
  };
  OpCase c;
  c.name = "Attention " + row.name;
  c.operands = {{stored(row.q, row.perm_q)}, {stored(row.k, row.perm_k)}, {stored(row.v, row.perm_v)}};
  if (row.packed >= 0) {
    c.operands.resize(1);
    c.operands[0].dims.insert(c.operands[0].dims.begin() + row.packed, 3);
  }
  if (!row.bias.empty()) c.operands.push_back({row.bias});
  if (!row.mask.empty()) c.operands.push_back({row.mask, -1, 2, Kind::kFlag});
  Attributes attrs = Attrs({{"scale", row.scale}, {"softcap", row.softcap}, {"causal_offset", row.offset}});
  attrs.Set("causal", int64_t{row.causal});
  attrs.Set("window", int64_t{row.window > 0});
  attrs.Set("window_offset", row.offset - row.window + 1);
  attrs.Set("empty_row", row.empty_row);
  for (const auto& [name, perm] : {std::pair{"perm_q", row.perm_q}, std::pair{"perm_k", row.perm_k},
                                   std::pair{"perm_v", row.perm_v}, std::pair{"perm_o", row.perm_o}})
    if (!perm.empty()) attrs.Set(name, perm);
  if (row.packed >= 0) attrs.Set("packed", row.packed);
  c.build = [attrs, bias = !row.bias.empty()](GraphBuilder& b, const Values& v) {
    std::vector<ValueId> inputs(v);
    if (attrs.Has("packed")) inputs.insert(inputs.begin(), 2, v[0]);
    if (!bias && inputs.size() > 3) inputs.insert(inputs.begin() + 3, kNoValue);
    return b.Add1("Attention", inputs, attrs, "tested");
  };
  c.truth = [row](const Tensors& t) { return AttentionTruth(row, row.packed < 0 ? t : Unpacked(row, t)); };
  c.batched = row.batched;
  return c;
}

inline std::vector<OpCase> SoftmaxCases() {
  std::vector<OpCase> cases;
  for (const Ints& dims : std::vector<Ints>{{5}, {3, 1}, {2, 3, 17}, {2, 70}, {0, 4}, {3, 0}})
    for (const bool log : {false, true})
      cases.push_back({log ? "LogSoftmax" : "Softmax",
                       {{dims}},
                       One(log ? "LogSoftmax" : "Softmax"),
                       [log](const Tensors& t) {
                         Tensor y = t[0];
                         const auto columns = y.dims.back();
                         for (auto row = y.data.begin(); row < y.data.end(); row += columns) {
                           const std::vector<double> p = SoftmaxOf({row, row + columns});
                           std::transform(p.begin(), p.end(), row,
                                          [log](double x) { return log ? std::log(x) : x; });
                         }
                         return y;
                       },
                       truth::Count(dims) > 0 ? std::vector<size_t>{0} : std::vector<size_t>{}});
  return cases;
}

inline std::vector<OpCase> AttentionCases() {
  const Ints heads_second{0, 2, 1, 3}, time_first{1, 2, 0, 3};
  const AttentionRow rows[] = {
      {.name = "of one head", .q = {2, 5, 3}, .k = {2, 5, 3}, .v = {2, 5, 3}, .batched = {0, 1, 2}},
      {.name = "odd", .q = {2, 3, 7, 5}, .k = {2, 3, 11, 5}, .v = {2, 3, 11, 4}, .batched = {0, 1, 2}},
      {.name = "one query, one key", .q = {1, 2, 1, 4}, .k = {1, 2, 1, 4}, .v = {1, 2, 1, 4}},
      {.name = "empty batch", .q = {0, 2, 3, 4}, .k = {0, 2, 3, 4}, .v = {0, 2, 3, 4}},
      {.name = "five axes",
       .q = {2, 3, 2, 4, 3},
       .k = {2, 3, 2, 4, 3},
       .v = {2, 3, 2, 4, 3},
       .bias = {3, 1, 4, 4}},
      {.name = "axes [N,T,H,D]",
       .q = {2, 3, 6, 4},
       .k = {2, 3, 5, 4},
       .v = {2, 3, 5, 4},
       .perm_q = heads_second,
       .perm_k = heads_second,
       .perm_v = heads_second,
       .perm_o = heads_second,
       .batched = {0, 1, 2}},
      {.name = "axes of every operand its own",
       .q = {2, 3, 6, 4},
       .k = {2, 3, 5, 4},
       .v = {2, 3, 5, 4},
       .perm_q = time_first,
       .perm_k = {0, 1, 3, 2},
       .perm_o = time_first},
      {.name = "causal", .q = {2, 2, 6, 3}, .k = {2, 2, 6, 3}, .v = {2, 2, 6, 3}, .causal = true},
      {.name = "window",
       .q = {2, 2, 6, 3},
       .k = {2, 1, 7, 3},
       .v = {2, 1, 7, 3},
       .bias = {2, 1, 7},
       .window = 3,
       .causal = true,
       .offset = 1},
      {.name = "causal, keys of the past",
       .q = {1, 2, 4, 3},
       .k = {1, 2, 9, 3},
       .v = {1, 2, 9, 3},
       .causal = true,
       .offset = 5},
      {.name = "grouped queries",
       .q = {2, 6, 5, 3},
       .k = {2, 2, 5, 3},
       .v = {2, 2, 5, 3},
       .causal = true,
       .batched = {0, 1, 2}},
      {.name = "one key head", .q = {2, 4, 5, 3}, .k = {2, 1, 5, 3}, .v = {2, 1, 5, 3}, .bias = {4, 5, 5}},
      {.name = "bias of a head",
       .q = {3, 2, 5, 3},
       .k = {3, 2, 5, 3},
       .v = {3, 2, 5, 3},
       .bias = {2, 5, 5},
       .batched = {0, 1, 2}},
      {.name = "bias of keys",
       .q = {3, 2, 5, 3},
       .k = {3, 2, 4, 3},
       .v = {3, 2, 4, 3},
       .bias = {3, 1, 1, 4},
       .batched = {0, 1, 2, 3}},
      {.name = "mask of keys",
       .q = {3, 2, 4, 3},
       .k = {3, 2, 9, 3},
       .v = {3, 2, 9, 3},
       .mask = {3, 1, 1, 9},
       .batched = {0, 1, 2, 3}},
      // Random masks hide all keys of some queries here. These masks give every key
      // the same weight.
      {.name = "mask of pairs",
       .q = {2, 2, 5, 3},
       .k = {2, 2, 2, 3},
       .v = {2, 2, 2, 3},
       .mask = {2, 1, 5, 2},
       .empty_row = "mean"},
      {.name = "mask and causal",
       .q = {2, 2, 7, 3},
       .k = {2, 2, 7, 3},
       .v = {2, 2, 7, 3},
       .mask = {2, 1, 1, 7},
       .causal = true,
       .empty_row = "mean"},
      {.name = "packed",
       .q = {2, 3, 6, 4},
       .k = {2, 3, 6, 4},
       .v = {2, 3, 6, 4},
       .perm_q = heads_second,
       .perm_k = heads_second,
       .perm_v = heads_second,
       .perm_o = heads_second,
       .batched = {0},
       .packed = 2},
      {.name = "packed in front, bias and mask",
       .q = {2, 2, 5, 3},
       .k = {2, 2, 5, 3},
       .v = {2, 2, 5, 3},
       .bias = {2, 5, 5},
       .mask = {2, 1, 1, 5},
       .empty_row = "mean",
       .packed = 0},
      {.name = "soft cap, bias and mask",
       .q = {2, 2, 5, 3},
       .k = {2, 2, 8, 3},
       .v = {2, 2, 8, 3},
       .bias = {2, 1, 8},
       .mask = {2, 1, 1, 8},
       .scale = 1,
       .softcap = 1.5},
  };
  std::vector<OpCase> cases;
  for (const AttentionRow& row : rows) cases.push_back(AttentionCase(row));
  return cases;
}

}  // namespace act::gradient_case
