// Attention as exporters write it: products, masks, softmax. The pass recognize-attention must find
// each form, and the node that it makes must compute the same.
#pragma once

#include "tests/compiler/exported_sdpa.h"

namespace act::gradient_case {

// [2, T, H D] -> [2, H, T, D]
inline ValueId SplitHeads(GraphBuilder& b, ValueId x, int64_t heads) {
  const Dims dims = b.type(x).dims;
  const ValueId split = Take(b.Reshape(x, {dims[0], dims[1], heads, dims[2].fixed / heads}));
  return Take(b.Transpose(split, {0, 2, 1, 3}));
}

inline ValueId CausalConstant(GraphBuilder& b, int64_t queries, int64_t keys, float hidden) {
  std::vector<float> mask;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) mask.push_back(j <= i + keys - queries ? 0 : hidden);
  return b.Constant("", {DType::kFloat32, {1, 1, queries, keys}}, testing_step::HostFloats(mask));
}

// The positions of a sequence's elements, as an exporter spreads them over the batch.
inline ValueId PositionsOf(GraphBuilder& b, Dim batch, Dims dims, int64_t first) {
  std::vector<int64_t> positions(static_cast<size_t>(dims[1].fixed * dims[2].fixed));
  std::iota(positions.begin(), positions.end(), first);
  dims.insert(dims.begin(), Dim(1));
  const HostTensor data =
      HostTensor::Copy(positions.data(), static_cast<int64_t>(positions.size() * sizeof(int64_t)));
  const ValueId once = b.Constant("", {DType::kInt64, dims}, data);
  dims[0] = batch;
  return Take(b.Expand(once, dims));
}

inline ValueId Flags(GraphBuilder& b, ValueId x) {
  return Node1(b, "Cast", {x}, Attrs({{"to", static_cast<int64_t>(DType::kFloat32)}}));
}
// `a and b` with "Mul", `a or b` with "Max", as the importer writes them.
inline ValueId Logic(GraphBuilder& b, const char* op, ValueId x, ValueId y) {
  return Node1(b, "Greater", {Node1(b, op, {Flags(b, x), Flags(b, y)}), Number(b, 0)});
}

// Attention with a mask that is added where `sees` is false.
inline llvm::Expected<ValueId> MaskedAttention(GraphBuilder& b, const Values& in, ValueId sees,
                                               float hidden) {
  const ValueId mask = Node1(b, "Where", {sees, Number(b, 0), Number(b, hidden)});
  ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
  s = Node1(b, "Add", {Node1(b, "Mul", {s, Number(b, .5f)}), mask});
  return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
}

inline std::vector<ExportedForm> ExportedForms() {
  constexpr float kLowest = -3.4028234663852886e38f;
  const Ints in_heads{0, 2, 1, 3};
  std::vector<ExportedForm> forms;
  // The scale is split between the operands. Heads are separated by reshape and transpose, and
  // joined again at the end: the axes of Attention are those of the projections.
  forms.push_back(
      {{.name = "heads split from features",
        .q = {2, 2, 5, 3},
        .k = {2, 2, 7, 3},
        .v = {2, 2, 7, 3},
        .perm_q = in_heads,
        .perm_k = in_heads,
        .perm_v = in_heads,
        .perm_o = in_heads,
        .scale = .25,
        .batched = {0, 1, 2}},
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         std::vector<ValueId> heads;
         for (ValueId v : in) {
           const Dims dims = b.type(v).dims;
           heads.push_back(SplitHeads(b, Take(b.Reshape(v, {dims[0], dims[1], 6})), 2));
         }
         const ValueId q = Node1(b, "Mul", {heads[0], Number(b, .5f)});
         const ValueId k = Node1(b, "Mul", {Number(b, .5f), heads[1]});
         const ValueId p = Node1(b, "Softmax", {Node1(b, "MatMul", {q, Take(b.Transpose(k, {0, 1, 3, 2}))})});
         return b.Transpose(Node1(b, "MatMul", {p, heads[2]}), {0, 2, 1, 3});
       }});
  forms.push_back({{.name = "keys transposed at once, added mask of keys, divided",
                    .q = {2, 2, 5, 3},
                    .k = {2, 2, 6, 3},
                    .v = {2, 2, 6, 3},
                    .mask = {2, 1, 1, 6},
                    .empty_row = "mean",
                    .batched = {0, 1, 2, 3}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const ValueId mask = Node1(b, "Where", {in[3], Number(b, 0), Number(b, kLowest)});
                     ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
                     s = Node1(b, "Add", {mask, Node1(b, "Div", {s, Number(b, 2)})});
                     return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
                   }});
  forms.push_back({{.name = "causal constant",
                    .q = {2, 2, 5, 3},
                    .k = {2, 2, 7, 3},
                    .v = {2, 2, 7, 3},
                    .causal = true,
                    .offset = 2},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const ValueId kt = Take(b.Transpose(in[1], {0, 1, 3, 2}));
                     ValueId s = Node1(b, "MatMul", {Node1(b, "Mul", {in[0], Number(b, .5f)}), kt});
                     s = Node1(b, "Add", {s, CausalConstant(b, 5, 7, -INFINITY)});
                     return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
                   }});
  forms.push_back({{.name = "heads in the batch, masked in place",
                    .q = {2, 3, 5, 3},
                    .k = {2, 3, 5, 3},
                    .v = {2, 3, 5, 3},
                    .mask = {2, 1, 5, 5},
                    .empty_row = "mean",
                    .batched = {0, 1, 2, 3}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const Dim slices = b.type(in[0]).dims[0] * Dim(3);
                     const auto merged = [&](ValueId v) { return Take(b.Reshape(v, {slices, 5, 3})); };
                     const ValueId kt = Take(b.Transpose(merged(in[1]), {0, 2, 1}));
                     ValueId s = Node1(b, "MatMul", {merged(in[0]), kt});
                     s = Take(b.Reshape(Node1(b, "Mul", {s, Number(b, .5f)}), WithAxes(b, in[0], {3, 5, 5})));
                     const ValueId hidden = Node1(b, "Equal", {in[3], Number(b, 0)});
                     s = Node1(b, "Where", {hidden, Number(b, -1e9f), s});
                     ValueId p = Node1(b, "Softmax", {s});
                     p = Take(b.Reshape(p, {slices, 5, 5}));
                     const ValueId o = Node1(b, "MatMul", {p, merged(in[2])});
                     return b.Reshape(o, WithAxes(b, in[0], {3, 5, 3}));
                   }});
  forms.push_back({{.name = "windows with a bias of positions",
                    .q = {2, 2, 4, 3},
                    .k = {2, 2, 4, 3},
                    .v = {2, 2, 4, 3},
                    .bias = {2, 4, 4},
                    .batched = {0, 1, 2}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const ValueId kt = Take(b.Transpose(in[1], {0, 1, 3, 2}));
                     ValueId s = Node1(b, "MatMul", {Node1(b, "Mul", {in[0], Number(b, .5f)}), kt});
                     s = Node1(b, "Add", {s, Take(b.Reshape(in[3], {1, 2, 4, 4}))});
                     const Dims windows = b.type(s).dims;
                     s = Take(b.Reshape(s, {1, windows[0], 2, 4, 4}));
                     s = Take(b.Reshape(s, windows));
                     return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
                   }});
  forms.push_back({{.name = "key heads repeated",
                    .q = {2, 4, 5, 3},
                    .k = {2, 2, 5, 3},
                    .v = {2, 2, 5, 3},
                    .causal = true,
                    .empty_row = "mean",
                    .batched = {0, 1, 2}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const ValueId kt = Take(b.Transpose(RepeatedHeads(b, in[1], 2), {0, 1, 3, 2}));
                     ValueId s = Node1(b, "Mul", {Node1(b, "MatMul", {in[0], kt}), Number(b, .5f)});
                     s = Node1(b, "Add", {s, CausalConstant(b, 5, 5, kLowest)});
                     return b.Add1("MatMul", {Node1(b, "Softmax", {s}), RepeatedHeads(b, in[2], 2)});
                   }});
  // Two queries come after those of earlier calls.
  forms.push_back({{.name = "causal by position",
                    .q = {2, 2, 5, 3},
                    .k = {2, 2, 7, 3},
                    .v = {2, 2, 7, 3},
                    .causal = true,
                    .offset = 2,
                    .empty_row = "mean",
                    .batched = {0, 1, 2}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const Dim batch = b.type(in[0]).dims[0];
                     const ValueId query = PositionsOf(b, batch, {1, 5, 1}, 2);
                     const ValueId key = PositionsOf(b, batch, {1, 1, 7}, 0);
                     const ValueId sees =
                         Logic(b, "Max", Node1(b, "Less", {key, query}), Node1(b, "Equal", {key, query}));
                     return MaskedAttention(b, in, sees, kLowest);
                   }});
  forms.push_back(
      {{.name = "causal by position, and padding",
        .q = {2, 2, 5, 3},
        .k = {2, 2, 5, 3},
        .v = {2, 2, 5, 3},
        .mask = {2, 1, 1, 5},
        .causal = true,
        .empty_row = "mean",
        .batched = {0, 1, 2, 3}},
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const Dim batch = b.type(in[0]).dims[0];
         const ValueId query = PositionsOf(b, batch, {1, 5, 1}, 0);
         const ValueId key = PositionsOf(b, batch, {1, 1, 5}, 0);
         const ValueId sees = Node1(b, "Equal", {Node1(b, "Greater", {key, query}), Number(b, 0)});
         const ValueId all = Node1(b, "Equal", {query, query});  // hides nothing
         return MaskedAttention(b, in, Logic(b, "Mul", Logic(b, "Mul", all, sees), in[3]), kLowest);
       }});
  forms.push_back({{.name = "later keys or padding hidden in place",
                    .q = {2, 2, 5, 3},
                    .k = {2, 2, 5, 3},
                    .v = {2, 2, 5, 3},
                    .mask = {2, 1, 1, 5},
                    .causal = true,
                    .empty_row = "mean",
                    .batched = {0, 1, 2, 3}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const Dim batch = b.type(in[0]).dims[0];
                     const ValueId query = PositionsOf(b, batch, {1, 5, 1}, 0);
                     const ValueId key = PositionsOf(b, batch, {1, 1, 5}, 0);
                     const ValueId hidden = Logic(b, "Max", Node1(b, "Less", {query, key}),
                                                  Node1(b, "Equal", {in[3], Number(b, 0)}));
                     ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
                     s = Node1(b, "Where", {hidden, Number(b, -1e9f), Node1(b, "Mul", {s, Number(b, .5f)})});
                     return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
                   }});
  forms.push_back({{.name = "capped", .q = {2, 2, 5, 3}, .k = {2, 2, 5, 3}, .v = {2, 2, 5, 3}, .softcap = 2},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     ValueId s = Node1(b, "MatMul", {in[0], in[1]}, Attrs({{"trans_b", int64_t{1}}}));
                     s = Node1(b, "Div", {Node1(b, "Mul", {s, Number(b, .5f)}), Number(b, 2)});
                     s = Node1(b, "Mul", {Node1(b, "Tanh", {s}), Number(b, 2)});
                     return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
                   }});
  // nn.MultiheadAttention: time is the first axis, heads are in the batch, features come last.
  // Nothing is moved.
  forms.push_back(
      {{.name = "time first",
        .q = {2, 2, 5, 3},
        .k = {2, 2, 7, 3},
        .v = {2, 2, 7, 3},
        .perm_q = in_heads,
        .perm_k = in_heads,
        .perm_v = in_heads,
        .perm_o = in_heads,
        .batched = {0, 1, 2}},
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const Dim batch = b.type(in[0]).dims[0];
         std::vector<ValueId> heads;
         for (ValueId v : in) {
           const int64_t time = b.type(v).dims[1].fixed;
           const ValueId first = Take(b.Transpose(Take(b.Reshape(v, {batch, time, 6})), {1, 0, 2}));
           const ValueId split = Take(b.Reshape(first, {time, batch * Dim(2), 3}));
           heads.push_back(Take(b.Reshape(Take(b.Transpose(split, {1, 0, 2})), {batch, 2, time, 3})));
         }
         const ValueId q = Node1(b, "Mul", {heads[0], Number(b, .5f)});
         const ValueId p =
             Node1(b, "Softmax", {Node1(b, "MatMul", {q, Take(b.Transpose(heads[1], {0, 1, 3, 2}))})});
         const ValueId o = Take(b.Transpose(Node1(b, "MatMul", {p, heads[2]}), {2, 0, 1, 3}));
         // A row for each time and sample, as the projection after it expects.
         const ValueId rows = Node1(b, "Neg", {Take(b.Reshape(o, {batch * Dim(5), 6}))});
         const ValueId back = Take(b.Transpose(Take(b.Reshape(rows, {5, batch, 6})), {1, 0, 2}));
         return b.Reshape(Node1(b, "Neg", {back}), {batch, 5, 2, 3});
       }});
  forms.push_back(
      {{.name = "slices of one product",
        .q = {2, 2, 5, 3},
        .k = {2, 2, 5, 3},
        .v = {2, 2, 5, 3},
        .perm_q = in_heads,
        .perm_k = in_heads,
        .perm_v = in_heads,
        .perm_o = in_heads,
        .batched = {0},
        .packed = 2},
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const Dim batch = b.type(in[0]).dims[0];
         const ValueId qkv = Take(b.Reshape(in[0], {batch, 5, 18}));
         std::vector<ValueId> heads;
         for (int64_t i = 0; i < 3; ++i)
           heads.push_back(SplitHeads(b, Take(b.Slice(qkv, {0, 0, 6 * i}, {batch, 5, 6}, {1, 1, 1})), 2));
         const ValueId kt = Take(b.Transpose(heads[1], {0, 1, 3, 2}));
         const ValueId s = Node1(b, "Mul", {Node1(b, "MatMul", {heads[0], kt}), Number(b, .5f)});
         return b.Transpose(Node1(b, "MatMul", {Node1(b, "Softmax", {s}), heads[2]}), {0, 2, 1, 3});
       }});
  for (const ExportedForm& form : SdpaForms()) forms.push_back(form);
  return forms;
}

inline std::vector<OpCase> ExportedAttentionCases() {
  std::vector<OpCase> cases;
  for (const ExportedForm& form : ExportedForms()) {
    OpCase c = AttentionCase(form.row);
    c.name = "Exported attention, " + form.row.name;
    c.build = form.build;
    cases.push_back(c);
  }
  return cases;
}

}  // namespace act::gradient_case
