// Weights that a model computes instead of storing: their ConstantOfShape nodes become
// initializers.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <vector>

#include "compiler/import/file/model_file.h"

namespace act::onnx_import {

// Replaces each ConstantOfShape node that makes a float32 tensor of rank 1 or more from a stored
// shape, and whose result some node reads as a weight (kernel, scale, bias, running statistic), by
// an initializer of the same name. The weight then trains, is exported and is counted like every
// other. A result that no node reads as a weight stays a constant. The new initializers have no
// data; `file.fills` has the number that fills each. Errors: together they have more than 2 GiB,
// the most that a model file could hold itself.
llvm::Error MaterializeWeights(ModelFile& file);

// The float32 number that fills a ConstantOfShape's result; nullopt for other types and broken
// tensors.
std::optional<float> FillValue(const onnx::NodeProto& node);
// The extents in a stored shape (i64[rank]); nullopt where it is not one of rank 1 or more.
std::optional<std::vector<int64_t>> StoredShape(const onnx::TensorProto& tensor);

// A float32 tensor of this type with all elements `value`.
HostTensor Filled(const TensorType& type, float value);

}  // namespace act::onnx_import
