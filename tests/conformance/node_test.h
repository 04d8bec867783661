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

struct Result {
  Outcome outcome = Outcome::kDiffers;
  std::string detail;         // the refusal, or where the outputs differ
  std::set<std::string> ops;  // ONNX operators in the model
  long opset = 0;
};

// Names of the tests in `folder`, sorted.
std::vector<std::string> NodeTests(const std::string& folder);

// Imports, compiles for evaluation and runs the model of `folder`/`name` with every data set it has. Inputs
// that an operator needs when compiling (ConstantInputs) are bound as constants, all others are fed.
Result RunNodeTest(const std::string& folder, const std::string& name);

}  // namespace act::conformance
