// Facts about operators belong in the op table (compiler/ops) and nowhere else. No pass asks for an
// operator by its name: every pass that lists operators would treat a new one wrongly until the
// list is extended. This test reads the sources. It allows code that makes a node of a certain
// operator, since that is not a question.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/ops/op_table.h"
#include "tests/paths.h"

namespace act {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {
    "passes", "compiler/ir", "compiler/policy", "compiler/autodiff", "compiler/emit", "runtime", "tools"};

// Files or folders that may name operators, and why. An entry that no longer names any has to be
// removed from this list.
const std::map<std::string, std::string> kAllowed = {
    {"compiler/emit/export_trained.cc", "names ONNX's operators, not ours"},
    {"passes/recognize/", "patterns of models are of certain operators"},
    {"passes/canonical/cancel_transposes.cc", "moves a transpose over each operator by a rule of its own"},
    {"passes/canonical/fold_bias.cc", "a sum and a product become one MatMul"},
    {"passes/canonical/lower_batch_norm.cc", "lowers BatchNorm, and Dropout at evaluation"},
    {"passes/canonical/lower_layer_norm.cc", "lowers LayerNorm"},
    {"passes/canonical/pack_attention.cc", "the operands of Attention, which are slices"},
    {"passes/canonical/sink_relu.cc", "a Relu and the MaxPool after it change places"},
    {"runtime/plan/runtime_op", "the table of the operators that a plan may contain"},
    {"runtime/plan/recurrent_signature.h", "the rows of that table for the recurrent operators"},
    {"tools/cuda_engines.cc", "lists the engines of convolutions"},
    {"runtime/train/evaluate.cc", "reads what CountCorrect counted"},
};

std::string Contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The sources contain no /* */ comments.
std::string WithoutComments(const std::string& text) {
  std::string code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    bool quoted = false;
    size_t end = 0;
    for (; end < line.size(); ++end) {
      if (line[end] == '"' && (end == 0 || line[end - 1] != '\\')) quoted = !quoted;
      if (!quoted && line.compare(end, 2, "//") == 0) break;
    }
    code += line.substr(0, end) + "\n";
  }
  return code;
}

// Each place at which the code asks for an operator's name, as "line: name".
std::vector<std::string> NamesAskedFor(const std::string& text) {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const OpDef& op : AllOps()) all.insert(op.name);
    return all;
  }();
  // What makes a node: a call of a builder, or the name given to a node.
  static const std::regex makes(
      R"(\b(Add|Add1|AddTyped|Op|Emit|EmitTyped|EmitMany|Derive|DeriveTyped)\(|\bop = $)");
  // What asks, regardless of what it compares with.
  static const std::regex asks(
      R"(\bop(\(\))?\s*[!=]=\s*("|k[A-Z])|\bop\.(rfind|find|starts_with|ends_with|substr|compare)\()");
  const std::string code = WithoutComments(text);
  std::set<std::pair<size_t, std::string>> found;
  const auto line_of = [&code](size_t at) {
    return static_cast<size_t>(
               std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(at), '\n')) +
           1;
  };
  for (auto it = std::sregex_iterator(code.begin(), code.end(), asks); it != std::sregex_iterator(); ++it)
    found.emplace(line_of(static_cast<size_t>(it->position())), it->str());
  size_t statement = 0;
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] == ';' || code[at] == '{' || code[at] == '}') statement = at + 1;
    if (code[at] != '"') continue;
    const size_t end = code.find('"', at + 1);
    if (end == std::string::npos) break;
    const std::string literal = code.substr(at + 1, end - at - 1);
    const std::string before = code.substr(statement, at - statement);
    if (names.count(literal) && !std::regex_search(before, makes)) found.emplace(line_of(at), literal);
    at = end;
  }
  std::vector<std::string> places;
  for (const auto& [line, what] : found) places.push_back(std::to_string(line) + ": " + what);
  return places;
}

TEST(OperatorNames, AreFoundWhereTheyDecideAndNotWhereTheyMake) {
  // Found once as a comparison, and once as a name.
  EXPECT_EQ(NamesAskedFor("if (node.op == \"Add\") return;\n").size(), 2u);
  EXPECT_FALSE(NamesAskedFor("a();\nif (n.op.ends_with(\"Grad\")) b();").empty());
  EXPECT_FALSE(NamesAskedFor("for (const char* op : {\"Relu\", \"MaxPool\"}) ..").empty());
  EXPECT_FALSE(NamesAskedFor("IsOneOf(op, {\"Conv\"})").empty());
  EXPECT_FALSE(NamesAskedFor("if (node.op != kSwapOut) continue;").empty());
  EXPECT_TRUE(NamesAskedFor("ACT_TRY(v, b.Add1(sided ? \"FromSided\" : \"FromDistance\", {x}));").empty());
  EXPECT_TRUE(NamesAskedFor("n.op = \"Decompress\";  // not \"Compress\"").empty());
}

TEST(OperatorNames, StandInTheOpTableAlone) {
  const fs::path root = SourceFolder();
  std::set<std::string> used;
  size_t files = 0;
  for (const char* folder : kFolders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      ++files;
      const std::string path = fs::relative(entry.path(), root).generic_string();
      const std::vector<std::string> places = NamesAskedFor(Contents(entry.path()));
      const auto allowed = std::find_if(kAllowed.begin(), kAllowed.end(),
                                        [&path](const auto& file) { return path.rfind(file.first, 0) == 0; });
      if (allowed != kAllowed.end()) {
        if (!places.empty()) used.insert(allowed->first);
        continue;
      }
      for (const std::string& place : places)
        ADD_FAILURE() << path << ":" << place << "\n  ask for a trait of OpDef (compiler/ops/op_table.h)";
    }
  }
  EXPECT_GT(files, 100u);
  for (const auto& [file, reason] : kAllowed)
    EXPECT_TRUE(used.count(file)) << file << " names no operator any more: take it from kAllowed";
}

}  // namespace
}  // namespace act
