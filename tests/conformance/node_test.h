// ONNX's node tests: one operator each, with inputs and expected outputs (Debian package libonnx-testdata).
#pragma once

#include <set>
#include <string>
#include <vector>

namespace act::conformance {

enum class Outcome {
  kPassed,
  kNotClaimed,  // has an operator that the importer does not know, or knows on constants alone
  kRefused,     // the compiler says that it cannot do this form of the operator
  kDiffers,     // runs, and gives something else
};

enum class Gradient {
  kNoData,  // no float input, or no float output
  kZero,    // of every input
  kExists,
  kRefused,  // the training step does not compile
};

struct Result {
  Outcome outcome = Outcome::kDiffers;
  std::string detail;         // the refusal, or where the outputs differ
  std::set<std::string> ops;  // ONNX operators in the model
  long opset = 0;
  // Where it passed:
  std::set<std::string> runtime_ops;      // of docs/runtime_ops.md, that the compiled model runs
  std::set<std::string> reference_ops;    // those of them that no fast kernel took
  Gradient gradient = Gradient::kNoData;  // of the sum of the first float output
};

// Names of the tests in `folder`, sorted.
std::vector<std::string> NodeTests(const std::string& folder);

// Imports, compiles for evaluation and runs the model of `folder`/`name` with every data set it has. Inputs
// that an operator needs when compiling (ConstantInputs) are bound as constants, all others are fed.
Result RunNodeTest(const std::string& folder, const std::string& name);

}  // namespace act::conformance
