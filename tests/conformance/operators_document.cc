#include "tests/conformance/operators_document.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "compiler/import/core/importer.h"
#include "compiler/import/file/onnx_versions.h"
#include "tests/conformance/exceptions.h"

namespace act::conformance {
namespace {

constexpr char kHead[] = R"(# ONNX operators
Written by `make docs-operators` from the import tables and the results of ONNX's own node tests
(tests/conformance). A test fails where it is out of date.

| column | says |
|---|---|
| operator | of the standard domain. *Constants*: only where all operands are known when compiling |
| opsets | ONNX's definitions that are read. Bold: node tests of that definition pass |
| gradient | of the float operands in a training step, see below |
| runs as | the operators of runtime_ops.md that stay in the plan |
| tests | node tests with this operator alone that pass, of those that there are |

* **Gradient**: "zero" means that it is zero everywhere, and "-" that there is no float operand or no float result.
* **Runs as**: an empty cell means that the operator only moves numbers or is computed when compiling. All have
  reference kernels. *Reference* means that no fast CPU kernel took a node of the tests.
* **Tests**: an operator newer than ONNX 1.12 (opset 17) has none here, and so empty cells. tests/compiler has its own.

)";

constexpr size_t kLineWidth = 120;

struct Row {
  int tests = 0, passed = 0;
  std::set<int64_t> tested;  // definitions, as in OnnxVersionAt
  std::set<std::string> runtime_ops, reference_ops, reasons;
  std::set<Gradient> gradients;
};

std::string Join(const std::set<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// Breaks the text into lines of at most kLineWidth characters. All but the first are indented.
std::string Wrapped(const std::string& sentence, const std::string& indent) {
  std::string text, line;
  std::istringstream words(sentence);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kLineWidth) {
      text += line + "\n";
      line = indent + word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
  }
  return text + line + "\n";
}

// A row of the table. Operators that do not fit into the cell's line go to a row below.
std::string TableRow(const std::string& front, const std::set<std::string>& runs_as,
                     const std::string& back) {
  std::string text, cell, start = front, end = back;
  for (const std::string& op : runs_as) {
    if (start.size() + cell.size() + 2 + op.size() + end.size() > kLineWidth) {
      text += start + cell + "," + end;
      start = "| | | | ";
      end = " | |\n";
      cell.clear();
    }
    cell += (cell.empty() ? "" : ", ") + op;
  }
  return text + start + cell + end;
}

std::string GradientText(const std::set<Gradient>& seen) {
  if (seen.count(Gradient::kExists)) return seen.count(Gradient::kRefused) ? "some forms" : "yes";
  if (seen.count(Gradient::kRefused)) return "refused";
  return seen.count(Gradient::kZero) ? "zero" : "-";
}

// The definitions from the one in force at opset 7 on. Older forms are refused.
std::string OpsetsText(std::string_view op, const std::set<int64_t>& tested) {
  std::string text;
  for (const int64_t version : onnx_import::OnnxVersions(op)) {
    if (version < onnx_import::OnnxVersionAt(op, 7)) continue;
    const std::string number = std::to_string(version);
    text += (text.empty() ? "" : ", ") + (tested.count(version) ? "**" + number + "**" : number);
  }
  return text;
}

std::set<std::string> RunsAs(const Row& row) {
  std::set<std::string> ops;
  for (const std::string& op : row.runtime_ops)
    if (op != "Reshape") ops.insert(op + (row.reference_ops.count(op) ? " (*reference*)" : ""));
  return ops;
}

}  // namespace

std::string OperatorsDocument(const std::map<std::string, Result>& results) {
  std::map<std::string, Row> rows;
  std::map<Outcome, int> totals;
  for (const auto& [test, result] : results) {
    ++totals[result.outcome];
    std::set<std::string> ops = result.ops;
    if (ops.size() > 1) ops.erase("Constant");
    if (ops.size() != 1) continue;
    Row& row = rows[*ops.begin()];
    ++row.tests;
    const auto exception = Exceptions().find(test);
    if (exception != Exceptions().end()) row.reasons.insert(exception->second.reason);
    if (result.outcome != Outcome::kPassed) continue;
    ++row.passed;
    row.tested.insert(onnx_import::OnnxVersionAt(*ops.begin(), result.opset));
    row.runtime_ops.insert(result.runtime_ops.begin(), result.runtime_ops.end());
    row.reference_ops.insert(result.reference_ops.begin(), result.reference_ops.end());
    row.gradients.insert(result.gradient);
  }

  std::string text = kHead;
  text += "Of " + std::to_string(results.size()) + " node tests " + std::to_string(totals[Outcome::kPassed]) +
          " pass, " + std::to_string(totals[Outcome::kRefused] + totals[Outcome::kDiffers]) +
          " do not (tests/conformance/exceptions.txt), " + std::to_string(totals[Outcome::kNotClaimed]) +
          " have operators that are not supported.\n\n";
  text += "| operator | opsets | gradient | runs as | tests |\n|---|---|---|---|---|\n";
  std::set<std::string> missing;
  std::string failing;
  for (const std::string_view name : onnx_import::OnnxOperators()) {
    onnx::NodeProto node;
    node.set_op_type(std::string(name));
    if (!onnx_import::IsSupported(node)) {
      missing.insert(std::string(name));
      continue;
    }
    const bool constants = !onnx_import::FindImport(node);
    const Row& row = rows[std::string(name)];
    text += TableRow(
        "| " + std::string(name) + (constants ? " (*constants*)" : "") + " | " +
            OpsetsText(name, row.tested) + " | " + (row.passed ? GradientText(row.gradients) : "") + " | ",
        RunsAs(row),
        " | " + (row.tests ? std::to_string(row.passed) + " of " + std::to_string(row.tests) : "") + " |\n");
    for (const std::string& reason : row.reasons)
      failing += Wrapped("* " + std::string(name) + ": " + reason, "  ");
  }
  return text + "\n## Why tests do not pass\n" + failing + "\n## Operators that are not supported\n" +
         Wrapped(Join(missing) + ".", "");
}

}  // namespace act::conformance
