// actc --compare: several plans of one model, side by side.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/import/import_onnx.h"
#include "passes/pipeline/pipeline.h"
#include "runtime/memory/comparison.h"

namespace act {

struct CompareRequest {
  std::vector<std::string> levels;  // L0 first; the others in the order given
  int64_t fit_bytes = 0;            // 0: nothing is searched
  std::string fit_dim = {};         // the axis to search over; empty: the batch
};

// From --compare=LEVEL,... and --fit=SIZE[:DIM] (may be empty). Its errors are wrong usage.
llvm::Expected<CompareRequest> ParseCompare(const std::string& levels, const std::string& fit,
                                            const ImportOptions& import);

// Imports and compiles the model for each level. `compile.level` is not read.
llvm::Expected<Comparison> Compare(const std::string& model, const ImportOptions& import,
                                   const CompileOptions& compile, const CompareRequest& request);

}  // namespace act
