// Symbolic axes: which one is the batch, and what the others are.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"
#include "runtime/base/tensor_type.h"

namespace act::onnx_import {

// The batch's symbol: the one that most inputs have on their first axis, the earliest where several
// are equally frequent. An axis without a name counts as the symbol "". Nullopt where no first axis
// is symbolic, or all of them are `given`.
std::optional<std::string> BatchSymbol(const std::vector<const onnx::ValueInfoProto*>& inputs,
                                       const std::map<std::string, Dim>& given);

// The input's type. The batch's symbol is N on any axis; other symbols have the extents of `given`
// (--dim), which may be N, too. Errors: an axis with neither, no shape at all, a type that is not a tensor of ours.
llvm::Expected<TensorType> InputType(const onnx::ValueInfoProto& input,
                                     const std::optional<std::string>& batch,
                                     const std::map<std::string, Dim>& given);

}  // namespace act::onnx_import
