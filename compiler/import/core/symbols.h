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

// The symbol of the batch is the one that most inputs carry on their first axis (the first of equals); an
// axis without a name counts as the symbol "". Nullopt where no first axis is symbolic, or all of them are
// fixed by `given`.
std::optional<std::string> BatchSymbol(const std::vector<const onnx::ValueInfoProto*>& inputs,
                                       const std::map<std::string, int64_t>& given);

// The input's type. The batch symbol is N wherever it stands; other symbols have the extents of `given`
// (--dim). Errors: an axis that has neither, no shape at all, a type that is no tensor of ours.
llvm::Expected<TensorType> InputType(const onnx::ValueInfoProto& input,
                                     const std::optional<std::string>& batch,
                                     const std::map<std::string, int64_t>& given);

}  // namespace act::onnx_import
