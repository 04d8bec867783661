// Operators that make known tensors: constants, and operators that read only the type of their
// operand.
#include "compiler/import/core/importer.h"
#include "compiler/import/known/onnx_types.h"

namespace act::onnx_import {
namespace {

llvm::Error SetKnown(NodeContext& c, Known known) { return c.Set(0, KnownOperand(std::move(known))); }

// Small tensors are known; large ones (tables) are constants of the graph.
llvm::Error SetTensor(NodeContext& c, const onnx::TensorProto& source) {
  onnx::TensorProto tensor = source;
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
    return c.Fail("a constant with external data is not supported",
                  "store it in the model: onnx.save_model with convert_attribute=False");
  ExternalData none("");
  ACT_TRY(const ConstantTensor constant, TakeConstant(tensor, none));
  if (constant.type.Elements().fixed <= kMaxKnownElements) {
    ACT_TRY(Known known, ToKnown(constant.type, constant.data));
    return SetKnown(c, std::move(known));
  }
  return c.Set(0, c.builder().Constant(c.node.output(0), constant.type, constant.data));
}

llvm::Error ImportConstant(NodeContext& c) {
  if (const onnx::TensorProto* tensor = c.attrs.Tensor("value")) return SetTensor(c, *tensor);
  if (c.attrs.Has("value_int")) return SetKnown(c, IntegerScalar(c.attrs.Int("value_int")));
  if (c.attrs.Has("value_float"))
    return SetKnown(c, RealScalar(DType::kFloat32, c.attrs.Float("value_float")));
  if (c.attrs.Has("value_ints")) {
    const std::vector<int64_t> values = c.attrs.Ints("value_ints");
    if (static_cast<int64_t>(values.size()) > kMaxKnownElements)
      return c.Fail("a list that long is not supported");
    return SetKnown(c, IntegerVector(Dims(values.begin(), values.end())));
  }
  if (c.attrs.Has("value_floats")) {
    Known known{{DType::kFloat32, {}}, {}};
    for (double value : c.attrs.Floats("value_floats"))
      known.elements.push_back(RealElement(DType::kFloat32, value));
    known.type.dims = {static_cast<int64_t>(known.elements.size())};
    return SetKnown(c, std::move(known));
  }
  return c.Fail("holds neither a tensor nor numbers");
}

llvm::Error ImportConstantOfShape(NodeContext& c) {
  ACT_TRY(const Dims dims, c.DimsFrom(0));
  for (const Dim& dim : dims)
    if (dim.IsFixed() && dim.fixed < 0) return c.Fail("has the extent " + ToString(dim));
  Known known = RealScalar(DType::kFloat32, 0);
  if (const onnx::TensorProto* value = c.attrs.Tensor("value")) {
    onnx::TensorProto tensor = *value;
    ExternalData none("");
    ACT_TRY(const ConstantTensor constant, TakeConstant(tensor, none));
    if (constant.type.Elements() != Dim(1)) return c.Fail("value must have one element");
    ACT_TRY(known, ToKnown(constant.type, constant.data));
  }
  known.type.dims = dims;
  if (known.type.Bytes().TooLarge()) return c.Fail("the result is too large");
  return SetKnown(c, std::move(known));
}

llvm::Error ImportShape(NodeContext& c) {
  const Dims& dims = c.DimsOf(0);
  const auto rank = static_cast<int64_t>(dims.size());
  const auto clamp = [rank](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t start = clamp(c.attrs.Int("start", 0)),
                end = std::max(start, clamp(c.attrs.Int("end", rank)));
  return SetKnown(c, IntegerVector(Dims(dims.begin() + start, dims.begin() + end)));
}

llvm::Error ImportSize(NodeContext& c) { return SetKnown(c, IntegerScalar(c.Type(0).Elements())); }

}  // namespace

const std::vector<ImportEntry>& ConstantImports() {
  static const std::vector<ImportEntry> entries = {
      {"Constant", 0, 0, ImportConstant},
      {"ConstantOfShape", 1, 1, ImportConstantOfShape},
      {"Shape", 1, 1, ImportShape},
      {"Size", 1, 1, ImportSize},
  };
  return entries;
}

}  // namespace act::onnx_import
