// Exact arithmetic on integers, for the importers of several families: nodes of our operators
// `Integer` and `IntegerReduce`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// `op`: runtime/plan/integer_op.h; `to`: the result's type of a cast.
llvm::Expected<ValueId> Integer(const NodeContext& c, const std::string& op, std::vector<ValueId> x,
                                std::optional<DType> to = std::nullopt);

// A constant scalar of an integer type or bool.
llvm::Expected<ValueId> IntegerConstant(const NodeContext& c, DType dtype, int64_t value);

llvm::Expected<ValueId> ReduceIntegers(const NodeContext& c, ValueId x, const std::string& op,
                                       std::vector<int64_t> axes, bool keep);

// [B.., M, K] x [B.., K, N] -> [B.., M, N]; batch axes broadcast. All products exist at once, which
// is small for what models multiply integers for (indices and masks).
llvm::Expected<ValueId> MultiplyIntegerMatrices(const NodeContext& c, ValueId a, ValueId b);

}  // namespace act::onnx_import
