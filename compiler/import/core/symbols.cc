#include "compiler/import/core/symbols.h"

#include "compiler/import/known/known.h"
#include "compiler/import/known/onnx_types.h"
#include "runtime/base/error.h"
#include "runtime/plan/plan_check.h"

namespace act::onnx_import {
namespace {

using Dimension = onnx::TensorShapeProto::Dimension;

bool IsFixed(const Dimension& dim) { return dim.value_case() == Dimension::kDimValue; }

// The axis's name. tf2onnx calls axes without a name unk__N, each by a number of its own.
std::string Symbol(const Dimension& dim) {
  constexpr std::string_view kUnnamed = "unk__";
  const std::string& name = dim.dim_param();
  const bool unnamed = name.size() > kUnnamed.size() && name.starts_with(kUnnamed) &&
                       name.find_first_not_of("0123456789", kUnnamed.size()) == std::string::npos;
  return unnamed ? "" : name;
}

}  // namespace

std::optional<std::string> BatchSymbol(const std::vector<const onnx::ValueInfoProto*>& inputs,
                                       const std::map<std::string, Dim>& given) {
  std::map<std::string, int> votes;
  std::optional<std::string> best;
  for (const onnx::ValueInfoProto* input : inputs) {
    const auto& shape = input->type().tensor_type().shape();
    if (shape.dim_size() == 0 || IsFixed(shape.dim(0)) || given.count(shape.dim(0).dim_param())) continue;
    ++votes[Symbol(shape.dim(0))];
  }
  for (const onnx::ValueInfoProto* input : inputs) {
    const auto& shape = input->type().tensor_type().shape();
    if (shape.dim_size() == 0) continue;
    if (IsFixed(shape.dim(0))) continue;
    const auto it = votes.find(Symbol(shape.dim(0)));
    if (it == votes.end()) continue;
    if (!best || it->second > votes[*best]) best = it->first;
  }
  return best;
}

llvm::Expected<TensorType> InputType(const onnx::ValueInfoProto& input,
                                     const std::optional<std::string>& batch,
                                     const std::map<std::string, Dim>& given) {
  const std::string place = "input '" + input.name() + "'";
  if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape())
    return MakeError(place, "is no tensor with a shape");
  const auto& tensor = input.type().tensor_type();
  const std::optional<DType> dtype = FromOnnxType(tensor.elem_type());
  if (!dtype)
    return MakeError(place, "element type " + std::to_string(tensor.elem_type()) + " is not supported");
  if (IsFloat(*dtype) && *dtype != DType::kFloat32)
    return MakeError(place, "is " + std::string(ToString(*dtype)) + "; training computes in f32",
                     "export the model in float32");
  if (tensor.shape().dim_size() > kMostAxes) return MakeError(place, "has more than 16 axes");
  TensorType type{*dtype, {}};
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const Dimension& dim = tensor.shape().dim(i);
    const auto fixed = given.find(dim.dim_param());
    if (IsFixed(dim)) {
      if (dim.dim_value() < 0 || dim.dim_value() >= kTooLarge)
        return MakeError(place,
                         "axis " + std::to_string(i) + " has the extent " + std::to_string(dim.dim_value()));
      type.dims.push_back(dim.dim_value());
    } else if (fixed != given.end()) {
      type.dims.push_back(fixed->second);
    } else if (batch && Symbol(dim) == *batch && (i == 0 || !batch->empty())) {
      type.dims.push_back(Dim::Batch());
    } else if (dim.dim_param().empty()) {
      return MakeError(place, "axis " + std::to_string(i) + " has neither an extent nor a name",
                       "export the model with a fixed or a named axis");
    } else {
      return MakeError(
          place,
          "axis " + std::to_string(i) + ", '" + dim.dim_param() + "', is not the batch and has no extent",
          "give it with --dim=" + dim.dim_param() + "=EXTENT, or --dim=" + dim.dim_param() +
              "=N if it is the batch");
    }
  }
  if (type.Bytes().TooLarge()) return MakeError(place, "is too large: " + ToString(type));
  return type;
}

}  // namespace act::onnx_import
