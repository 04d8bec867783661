// Weights that a model computes instead of holding: ConstantOfShape nodes become initializers.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <vector>

#include "compiler/import/file/model_file.h"

namespace act::onnx_import {

// Replaces each ConstantOfShape node that makes a float32 tensor of rank 1 or more from a stored shape, and
// whose result some node reads as a weight (kernel, scale, bias, running statistic), by an initializer of the
// same name. So it trains, is exported and counted as every other weight. Where no operand of that kind reads
// it, it is a constant. The initializers have no data; the number that fills each is in `file.fills`. Errors:
// together they have more than 2 GiB, the most that a model file could hold itself.
llvm::Error MaterializeWeights(ModelFile& file);

// The float32 number that fills a ConstantOfShape's result; nullopt for other types and broken tensors.
std::optional<float> FillValue(const onnx::NodeProto& node);
// The extents in a stored shape (i64[rank]); nullopt where it is not one of rank 1 or more.
std::optional<std::vector<int64_t>> StoredShape(const onnx::TensorProto& tensor);

// A float32 tensor of this type with all elements `value`.
HostTensor Filled(const TensorType& type, float value);

}  // namespace act::onnx_import
