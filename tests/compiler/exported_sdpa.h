// PyTorch's scaled_dot_product_attention as its exporters write it: below opset 23 in products, above as ONNX's
// operator, with masks and repeated heads spelled out in both. The forms are those of `exported_attention.h`.
#pragma once

#include <numeric>

#include "tests/compiler/op_cases_attention.h"

namespace act::gradient_case {

struct ExportedForm {
  AttentionRow row;  // what the graph computes
  std::function<llvm::Expected<ValueId>(GraphBuilder&, const Values&)> build;
};

inline ValueId Number(GraphBuilder& b, float value) { return b.Scalar(value); }
inline ValueId Node1(GraphBuilder& b, const char* op, std::vector<ValueId> inputs, Attributes attrs = {}) {
  return Take(b.Add1(op, std::move(inputs), std::move(attrs), "exported"));
}
inline Dims WithAxes(GraphBuilder& b, ValueId v, const Dims& rest) {
  Dims dims{b.type(v).dims[0]};
  dims.insert(dims.end(), rest.begin(), rest.end());
  return dims;
}

// [N, H, T, D] -> [N, H, D, T], with batch and heads in one axis while it is transposed.
inline ValueId TransposedBetweenReshapes(GraphBuilder& b, ValueId k) {
  const Dims dims = b.type(k).dims;
  const ValueId merged = Take(b.Reshape(k, {dims[0] * dims[1], dims[2], dims[3]}));
  return Take(b.Reshape(Take(b.Transpose(merged, {0, 2, 1})), {dims[0], dims[1], dims[3], dims[2]}));
}

// Where(IsNaN(p), 0, p)
inline ValueId WithoutNaN(GraphBuilder& b, ValueId p) {
  const ValueId is_number = Node1(b, "Equal", {p, p});
  return Node1(b, "Where", {Node1(b, "Equal", {is_number, Number(b, 0)}), Number(b, 0), p});
}

// Scores whose factors are both multiplied by the root of the scale.
inline ValueId SdpaScores(GraphBuilder& b, ValueId q, ValueId k, float scale) {
  const ValueId root = Number(b, std::sqrt(scale));
  return Node1(b, "MatMul",
               {Node1(b, "Mul", {q, root}), Node1(b, "Mul", {TransposedBetweenReshapes(b, k), root})});
}

// [N, H, T, D] as [N, groups H, T, D]
inline ValueId RepeatedHeads(GraphBuilder& b, ValueId v, int64_t groups) {
  const Dims dims = b.type(v).dims;
  const ValueId one = Take(b.Reshape(v, {dims[0], dims[1], 1, dims[2], dims[3]}));
  const ValueId many = Take(b.Expand(one, {dims[0], dims[1], groups, dims[2], dims[3]}));
  return Take(b.Reshape(many, {dims[0], dims[1] * Dim(groups), dims[2], dims[3]}));
}

inline ValueId BoolConstant(GraphBuilder& b, Dims dims, const std::vector<uint8_t>& flags) {
  return b.Constant("", {DType::kBool, std::move(dims)},
                    HostTensor::Copy(flags.data(), static_cast<int64_t>(flags.size())));
}
// Query i sees keys first .. i + later.
inline ValueId LowerTriangle(GraphBuilder& b, int64_t queries, int64_t keys, int64_t later) {
  std::vector<uint8_t> flags;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) flags.push_back(j <= i + later);
  return BoolConstant(b, {1, 1, queries, keys}, flags);
}

// Attention of ONNX's opset 23, as it is imported.
inline llvm::Expected<ValueId> Operator(GraphBuilder& b, std::vector<ValueId> inputs, Attributes attrs = {}) {
  attrs.Set("scale", .5);
  attrs.Set("empty_row", std::string("zero"));
  return b.Add1("Attention", std::move(inputs), std::move(attrs), "exported");
}

inline std::vector<ExportedForm> SdpaForms() {
  const Ints q{2, 2, 5, 3}, k{2, 2, 7, 3};
  std::vector<ExportedForm> forms;
  // Some queries see no key.
  forms.push_back({{.name = "SDPA with a bool mask",
                    .q = q,
                    .k = k,
                    .v = k,
                    .mask = {2, 1, 5, 7},
                    .empty_row = "zero",
                    .batched = {0, 1, 2, 3}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const ValueId mask = Node1(b, "Where", {in[3], Number(b, 0), Number(b, -INFINITY)});
                     const ValueId s = Node1(b, "Add", {SdpaScores(b, in[0], in[1], .5f), mask});
                     return b.Add1("MatMul", {WithoutNaN(b, Node1(b, "Softmax", {s})), in[2]});
                   }});
  forms.push_back(
      {{.name = "SDPA, causal, of groups of queries",
        .q = {2, 4, 5, 3},
        .k = {2, 2, 5, 3},
        .v = {2, 2, 5, 3},
        .causal = true,
        .empty_row = "zero",
        .batched = {0, 1, 2}},
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const ValueId sees = Take(b.Expand(LowerTriangle(b, 5, 5, 0), WithAxes(b, in[0], {1, 5, 5})));
         const ValueId mask = Node1(b, "Where", {sees, Number(b, 0), Number(b, -INFINITY)});
         const ValueId s = SdpaScores(b, in[0], RepeatedHeads(b, in[1], 2), .5f);
         const ValueId p = Node1(b, "Softmax", {Node1(b, "Add", {s, mask})});
         return b.Add1("MatMul", {WithoutNaN(b, p), RepeatedHeads(b, in[2], 2)});
       }});
  forms.push_back({{.name = "SDPA, later keys and padding in one sum",
                    .q = q,
                    .k = k,
                    .v = k,
                    .mask = {2, 1, 1, 7},
                    .causal = true,
                    .offset = 1,
                    .empty_row = "zero",
                    .batched = {0, 1, 2, 3}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const ValueId later =
                         Node1(b, "Where", {LowerTriangle(b, 5, 7, 1), Number(b, 0), Number(b, -INFINITY)});
                     const ValueId padding = Node1(b, "Where", {in[3], Number(b, 0), Number(b, -INFINITY)});
                     ValueId s = Node1(b, "Add", {later, padding});
                     s = Node1(b, "Add", {SdpaScores(b, in[0], in[1], .5f), s});
                     return b.Add1("MatMul", {WithoutNaN(b, Node1(b, "Softmax", {s})), in[2]});
                   }});
  // A mask for each sample of what positions alone decide. A query sees three keys at most.
  forms.push_back({{.name = "a window of keys",
                    .q = q,
                    .k = k,
                    .v = k,
                    .window = 3,
                    .causal = true,
                    .offset = 1,
                    .empty_row = "zero",
                    .batched = {0, 1, 2}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     std::vector<uint8_t> flags;
                     for (int64_t i = 0; i < 5; ++i)
                       for (int64_t j = 0; j < 7; ++j) flags.push_back(j <= i + 1 && j > i - 2);
                     const ValueId sees =
                         Take(b.Expand(BoolConstant(b, {1, 1, 5, 7}, flags), WithAxes(b, in[0], {1, 5, 7})));
                     return Operator(b, {in[0], in[1], in[2], kNoValue, sees});
                   }});
  // As of Mistral: comparisons of positions and the padding of each sample in one mask.
  forms.push_back(
      {{.name = "a window of keys and padding",
        .q = q,
        .k = k,
        .v = k,
        .mask = {2, 1, 1, 7},
        .window = 2,
        .causal = true,
        .empty_row = "zero",
        .batched = {0, 1, 2, 3}},
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const auto positions = [&b](Dims dims, int64_t count, float first) {
           std::vector<float> x(static_cast<size_t>(count));
           std::iota(x.begin(), x.end(), first);
           return b.Constant("", {DType::kFloat32, std::move(dims)},
                             HostTensor::Copy(x.data(), static_cast<int64_t>(x.size() * sizeof(float))));
         };
         const ValueId query = positions({5, 1}, 5, 0), before = positions({5, 1}, 5, -2),
                       key = positions({7}, 7, 0);
         const ValueId seen = Node1(b, "Equal", {Node1(b, "Greater", {key, query}), Number(b, 0)});
         const ValueId near = Node1(b, "Greater", {key, before});
         const auto both = [&b](ValueId x, ValueId y) {
           const Attributes to = Attrs({{"to", static_cast<int64_t>(DType::kFloat32)}});
           const ValueId product = Node1(b, "Mul", {Node1(b, "Cast", {x}, to), Node1(b, "Cast", {y}, to)});
           return Node1(b, "Greater", {product, Number(b, 0)});
         };
         const ValueId sees = both(both(seen, near), in[3]);
         const ValueId mask = Node1(b, "Where", {sees, Number(b, 0), Number(b, -INFINITY)});
         const ValueId s = Node1(b, "Add", {SdpaScores(b, in[0], in[1], .5f), mask});
         return b.Add1("MatMul", {WithoutNaN(b, Node1(b, "Softmax", {s})), in[2]});
       }});
  // As PyTorch's MultiheadAttention adds its masks up, with batch and heads in one axis.
  forms.push_back(
      {{.name = "later keys and padding in one sum of merged axes",
        .q = q,
        .k = k,
        .v = k,
        .mask = {2, 1, 1, 7},
        .causal = true,
        .offset = 2,
        .batched = {0, 1, 2, 3}},
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const Dim batch = b.type(in[0]).dims[0];
         const ValueId flags = Take(b.Reshape(in[3], {batch, 7}));
         const ValueId hidden = Node1(b, "Equal", {flags, Number(b, 0)});
         const ValueId once = Node1(b, "Where", {hidden, Number(b, -INFINITY), Number(b, 0)});
         const ValueId padding = Take(b.Expand(Take(b.Reshape(once, {batch, 1, 1, 7})), {batch, 2, 1, 7}));
         const ValueId later =
             Node1(b, "Where", {LowerTriangle(b, 5, 7, 2), Number(b, 0), Number(b, -INFINITY)});
         ValueId sum = Node1(
             b, "Add", {Take(b.Reshape(later, {1, 5, 7})), Take(b.Reshape(padding, {batch * Dim(2), 1, 7}))});
         sum = Take(b.Reshape(sum, {batch, 2, 5, 7}));
         const ValueId s = Node1(b, "Add", {SdpaScores(b, in[0], in[1], .5f), sum});
         return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
       }});
  // As of T5.
  forms.push_back({{.name = "a mask in one sum with a bias of positions",
                    .q = q,
                    .k = k,
                    .v = k,
                    .bias = {2, 5, 7},
                    .mask = {2, 1, 1, 7},
                    .empty_row = "mean",
                    .batched = {0, 1, 2, 4}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const ValueId mask = Node1(b, "Where", {in[4], Number(b, 0), Number(b, -3e38f)});
                     const ValueId sum = Node1(b, "Add", {Take(b.Reshape(in[3], {1, 2, 5, 7})), mask});
                     ValueId s = Node1(
                         b, "Mul",
                         {Node1(b, "MatMul", {in[0], TransposedBetweenReshapes(b, in[1])}), Number(b, .5f)});
                     s = Node1(b, "Add", {s, sum});
                     return b.Add1("MatMul", {Node1(b, "Softmax", {s}), in[2]});
                   }});
  forms.push_back(
      {{.name = "the operator, with a mask of later keys, of groups of queries",
        .q = {2, 4, 5, 3},
        .k = {2, 2, 7, 3},
        .v = {2, 2, 7, 3},
        .causal = true,
        .offset = 2,
        .empty_row = "zero",
        .batched = {0, 1, 2}},
       [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
         const ValueId sees = Take(b.Expand(LowerTriangle(b, 5, 7, 2), WithAxes(b, in[0], {1, 5, 7})));
         return Operator(b, {in[0], RepeatedHeads(b, in[1], 2), RepeatedHeads(b, in[2], 2), kNoValue, sees});
       }});
  // With is_causal query 0 sees key 0 at most, and the mask may hide that.
  Attributes is_causal;
  is_causal.Set("causal", int64_t{1});
  forms.push_back({{.name = "the operator, causal, with an added mask",
                    .q = q,
                    .k = k,
                    .v = k,
                    .mask = {2, 1, 1, 7},
                    .causal = true,
                    .empty_row = "zero",
                    .batched = {0, 1, 2, 3}},
                   [is_causal](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     const ValueId mask = Node1(b, "Where", {in[3], Number(b, 0), Number(b, -INFINITY)});
                     return Operator(b, {in[0], in[1], in[2], mask}, is_causal);
                   }});
  forms.push_back({{.name = "the operator, of scaled queries",
                    .q = q,
                    .k = k,
                    .v = k,
                    .scale = .25,
                    .empty_row = "zero",
                    .batched = {0, 1, 2}},
                   [](GraphBuilder& b, const Values& in) -> llvm::Expected<ValueId> {
                     return Operator(b, {Node1(b, "Mul", {in[0], Number(b, .5f)}), in[1], in[2]});
                   }});
  return forms;
}

}  // namespace act::gradient_case
