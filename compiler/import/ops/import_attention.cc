// ONNX's Attention (opset 23) as ours.
#include <cmath>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

enum Input : size_t { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kKeyLengths };

llvm::Error CheckForm(NodeContext& c) {
  for (size_t i : {size_t{kPastKey}, size_t{kPastValue}, size_t{kKeyLengths}})
    if (c.Has(i))
      return c.Fail("keys and values of earlier calls are not supported", "leave out inputs 4 to 6");
  for (size_t i : {size_t{1}, size_t{2}})
    if (c.WantsOutput(i)) return c.Fail("outputs of keys and values for later calls are not supported");
  if (c.WantsOutput(3)) return c.Fail("the output of scores is not supported: they are not stored");
  constexpr int64_t kFloat = 1;  // onnx::TensorProto::FLOAT
  if (c.attrs.Int("softmax_precision", kFloat) != kFloat)
    return c.Fail("computes in float32, softmax_precision is another type");
  const int64_t rank = c.Type(kQuery).rank();
  if ((rank != 3 && rank != 4) || c.Type(kKey).rank() != rank || c.Type(kValue).rank() != rank)
    return c.Fail("Q " + ToString(c.Type(kQuery)) + ", K " + ToString(c.Type(kKey)) + " and V " +
                  ToString(c.Type(kValue)) + " must all have 3 axes or all 4");
  return llvm::Error::success();
}

// [N, T, H D] as [N, H, T, D]
llvm::Expected<ValueId> SplitHeads(NodeContext& c, ValueId x, const char* attribute) {
  const Dims dims = c.TypeOf(x).dims;
  if (dims.size() == 4) return x;
  const int64_t heads = c.attrs.Int(attribute);
  const auto depth = heads > 0 ? DivideExact(dims[2], Dim(heads)) : std::nullopt;
  if (!depth)
    return c.Fail(std::string("the last axis of ") + ToString(c.TypeOf(x)) + " cannot be cut into " +
                  attribute + " = " + std::to_string(heads) + " heads");
  ACT_TRY(x, c.Reshape(x, {dims[0], dims[1], heads, *depth}));
  return c.Transpose(x, {0, 2, 1, 3});
}

// softmax(cap(scale q k^T) + mask) v, where a query that sees no key gets 0. With 3-D operands the
// result is [N, T, H D] again.
llvm::Error ImportAttention(NodeContext& c) {
  ACT_CHECK_OK(CheckForm(c));
  std::vector<ValueId> operands;
  for (size_t i : {size_t{kQuery}, size_t{kKey}, size_t{kValue}}) {
    ACT_TRY(const ValueId value, c.Value(i));
    ACT_TRY(const ValueId heads, SplitHeads(c, value, i == kQuery ? "q_num_heads" : "kv_num_heads"));
    operands.push_back(heads);
  }
  if (c.Has(kMask)) {
    ACT_TRY(const ValueId mask, c.Value(kMask));
    if (c.Type(kMask).dtype == DType::kBool) operands.push_back(kNoValue);
    operands.push_back(mask);
  }
  const Dim depth = c.TypeOf(operands[0]).dims.back();
  if (!depth.IsFixed() || depth.fixed < 1) return c.Fail("heads must have a fixed size");
  Attributes attrs;
  attrs.Set("scale", c.attrs.Float("scale", 1 / std::sqrt(static_cast<double>(depth.fixed))));
  attrs.Set("empty_row", std::string("zero"));
  if (c.attrs.Int("is_causal") != 0) attrs.Set("causal", int64_t{1});
  if (const double cap = c.attrs.Float("softcap"); cap > 0) attrs.Set("softcap", cap);
  ACT_TRY(ValueId y, c.Emit("Attention", operands, attrs));
  if (c.Type(kQuery).rank() == 3) {
    ACT_TRY(y, c.Transpose(y, {0, 2, 1, 3}));
    const Dims dims = c.TypeOf(y).dims;
    ACT_TRY(y, c.Reshape(y, {dims[0], dims[1], dims[2] * dims[3]}));
  }
  return c.Set(0, y);
}

}  // namespace

const std::vector<ImportEntry>& AttentionImports() {
  static const std::vector<ImportEntry> entries = {{"Attention", 3, 7, ImportAttention}};
  return entries;
}

}  // namespace act::onnx_import
