// The loss of a model: one of its outputs, or what --loss adds.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

struct FoundLoss {
  ValueId value;
  std::string name;  // in the model
};

// The loss in the model: the named output, or the only one that is a scalar float. Errors: there is none, with the
// flags that add one as a hint; there are several; or it depends on nothing that trains.
llvm::Expected<FoundLoss> FindLoss(Importer& importer, const std::vector<std::string>& outputs);

// Adds the loss `kind` (append_loss.h) after the only one of `outputs`. Errors: there are several, the model has a
// value 'label', or the number of predictions depends on data.
llvm::Expected<ValueId> AddLoss(Importer& importer, const std::vector<std::string>& outputs,
                                const std::string& kind);

}  // namespace act::onnx_import
