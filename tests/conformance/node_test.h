// ONNX's node tests: one operator each, with inputs and expected outputs (Debian package
// libonnx-testdata).
#pragma once

#include <set>
#include <string>
#include <vector>

namespace act::conformance {

enum class Outcome {
  kPassed,
  kNotClaimed,  // has an operator that the importer does not know, or knows only on constants
  kRefused,     // the compiler says that it does not support this form of the operator
  kDiffers,     // it runs and gives another result
};

enum class Gradient {
  kNoData,  // there is no float input, or no float output
  kZero,    // zero for every input
  kExists,
  kRefused,  // the training step does not compile
};

struct Result {
  Outcome outcome = Outcome::kDiffers;
  std::string detail;         // the refusal, or where the outputs differ
  std::set<std::string> ops;  // ONNX operators in the model
  long opset = 0;
  // Only if it passed:
  std::set<std::string> runtime_ops;      // operators of docs/runtime_ops.md that the model runs
  std::set<std::string> reference_ops;    // those of them for which there was no fast kernel
  Gradient gradient = Gradient::kNoData;  // gradient of the sum of the first float output
};

// The names of the tests in `folder`, sorted.
std::vector<std::string> NodeTests(const std::string& folder);

// Imports the model of `folder`/`name`, compiles it for evaluation and runs it on each of its
// data sets. Inputs that an operator needs when compiling (ConstantInputs) are bound as
// constants. All others are fed.
Result RunNodeTest(const std::string& folder, const std::string& name);

}  // namespace act::conformance
