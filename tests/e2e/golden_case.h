// One golden case (tests/golden/README.md), and its way through actc and actrun.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/process.h"
#include "tests/e2e/tensors.h"

namespace act::e2e {

// A case and one of its model files.
struct GoldenModel {
  std::string name, file;
};
// All of tests/golden, sorted by name, with each exporter's file where the case has one.
const std::vector<GoldenModel>& GoldenModels();
// One file of each case, for tests that take long.
std::vector<GoldenModel> FirstExports();
// "vit_dynamo", for names of tests.
std::string TestName(const GoldenModel& model);
inline void PrintTo(const GoldenModel& model, std::ostream* out) { *out << TestName(model); }

struct GoldenCase {
  std::string folder;
  std::string inputs;  // the file of the batch
  double learning_rate = 0;
  int64_t batch = 0;  // first extent of the first input
  Tensors expected;   // PyTorch's numbers
  // A checkpoint from which runs start. If empty, they start where the model does.
  std::string start;
  // If one tensor has two names: from the name in the model's file to PyTorch's name.
  llvm::json::Object aliases;
  bool normalizes = false;        // has a normalization, as one node or spelled out
  llvm::json::Object fp32_error;  // by tensor: error of PyTorch's own float32

  std::string File(const std::string& name) const { return folder + "/" + name; }
  // How far a tensor computed in float32 may be from `expected`, as a norm.
  double Tolerance(const std::string& name) const;
  // The tensor of `expected` among those that a tool wrote, under either of its names. Null
  // if it is missing.
  const Tensor* Find(const Tensors& written, const std::string& name) const;
};

llvm::Expected<GoldenCase> LoadGoldenCase(const std::string& name);

// Compiles `model` (a file of the case) into `plan`, with further flags. Returns actc's report.
llvm::Expected<llvm::json::Object> Compile(const GoldenCase& golden, const std::string& model,
                                           const std::string& level, const std::string& plan,
                                           const ScratchFolder& scratch,
                                           const std::vector<std::string>& flags = {});

struct RunResult {
  llvm::json::Object report;
  Tensors step;  // loss, grad.*, buffer.* of the first step
  Tensors end;   // param.* after the last step
};
// Runs `steps` of SGD on the case's batch, with further flags.
llvm::Expected<RunResult> Train(const GoldenCase& golden, const std::string& plan, int steps, uint64_t seed,
                                const ScratchFolder& scratch, const std::vector<std::string>& flags = {});

// The case, for tests of gradients. If most parameters have none at the start (a vision
// transformer's head begins at 0, and no gradient passes it), runs start after five exact steps,
// and `expected` is L0's gradient there.
llvm::Expected<GoldenCase> LoadCaseWithGradients(const GoldenModel& model, const ScratchFolder& scratch);

// The gradients that training with other rounding makes at one point. Parameters do not change.
struct DrawnGradients {
  Tensors first;  // grad.* of the first of `rounds` steps
  Tensors mean;   // their mean over all of them
};
llvm::Expected<DrawnGradients> DrawGradients(const GoldenCase& golden, const std::string& plan, int rounds,
                                             uint64_t seed, const ScratchFolder& scratch);

// Does the plan with this report of actc store anything inexactly?
bool CodesLossily(const llvm::json::Object& report);

}  // namespace act::e2e
