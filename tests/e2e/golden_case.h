// One golden case (tests/golden/README.md) and its way through actc and actrun.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/process.h"
#include "tests/e2e/tensors.h"

namespace act::e2e {

const std::vector<std::string>& GoldenCases();
// Cases of transformers, each with the file of its model: some exporters have no form of them with an axis N.
const std::vector<std::pair<std::string, std::string>>& TransformerCases();

struct GoldenCase {
  std::string folder;
  double learning_rate = 0;
  int64_t batch = 0;              // first extent of the first input
  Tensors expected;               // PyTorch's numbers
  llvm::json::Object aliases;     // of two names of one tensor, that of the model's file to PyTorch's
  llvm::json::Object fp32_error;  // by tensor: PyTorch's own float32 against the same numbers

  std::string File(const std::string& name) const { return folder + "/" + name; }
};

llvm::Expected<GoldenCase> LoadGoldenCase(const std::string& name);

// Compiles `model` (a file of the case) into `plan`, with further flags; returns actc's report.
llvm::Expected<llvm::json::Object> Compile(const GoldenCase& golden, const std::string& model,
                                           const std::string& level, const std::string& plan,
                                           const ScratchFolder& scratch,
                                           const std::vector<std::string>& flags = {});

struct RunResult {
  llvm::json::Object report;
  Tensors step;  // loss, grad.*, buffer.* of the first step
  Tensors end;   // param.* after the last
};
// `steps` of SGD on the case's batch.
llvm::Expected<RunResult> Train(const GoldenCase& golden, const std::string& plan, int steps, uint64_t seed,
                                const ScratchFolder& scratch);

}  // namespace act::e2e
