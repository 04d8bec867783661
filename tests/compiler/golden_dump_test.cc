// The graphs of small models behind chosen passes, as `actc --print-after=PASS` prints them, against the
// texts in tests/golden_dumps. tests/golden_dumps/regenerate.sh writes them anew; the change is reviewed as a
// diff.
#include <fstream>
#include <sstream>

#include "compiler/import/import_onnx.h"
#include "compiler/ir/dump.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;

struct GoldenDump {
  const char* model;  // a folder of tests/golden
  const char* level;
  const char* pass;
};

constexpr GoldenDump kDumps[] = {
    {"mlp", "L0", "add-gradients"},               // the backward pass and where the updates stand
    {"lenet", "L0", "fuse-loops"},                // the whole exact step
    {"resnet_basic", "L0", "cancel-transposes"},  // one transpose left
    {"resnet_basic", "L3", "compress"},           // masks, codes, who decodes
    {"resnet_basic", "L3", "fuse-loops"},         // encode and decode inside loops
};

std::string FileOf(const GoldenDump& dump) {
  return std::string(ACT_SOURCE_DIR) + "/tests/golden_dumps/" + dump.model + "." + dump.level + "." +
         dump.pass + ".txt";
}

std::string MakeDump(const GoldenDump& dump) {
  ImportResult model =
      Take(ImportOnnx(std::string(ACT_SOURCE_DIR) + "/tests/golden/" + dump.model + "/model.onnx", {}));
  CompileOptions options = testing_step::Checked(dump.level, "sgd");
  // The models are small: a group smaller than usual, so that their tensors have codes.
  options.group_size = 64;
  std::string text;
  options.after_pass = [&](const std::string& pass, const Graph& graph) {
    if (pass == dump.pass) text = Dump(graph);  // of the last run where a pass runs several times
  };
  Take(Compile(std::move(model), options));
  return text;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The first few lines that differ, as a diff shows them.
std::string FirstDifference(const std::string& want, const std::string& got) {
  const std::vector<std::string> a = Lines(want), b = Lines(got);
  size_t at = 0;
  while (at < std::min(a.size(), b.size()) && a[at] == b[at]) ++at;
  std::string text = "line " + std::to_string(at + 1) + ":\n";
  for (size_t i = at; i < std::min(a.size(), at + 4); ++i) text += "-" + a[i] + "\n";
  for (size_t i = at; i < std::min(b.size(), at + 4); ++i) text += "+" + b[i] + "\n";
  return text;
}

class GoldenDumps : public ::testing::TestWithParam<GoldenDump> {};

TEST_P(GoldenDumps, AreWhatThePassesMake) {
  const std::string got = MakeDump(GetParam()), path = FileOf(GetParam());
  ASSERT_FALSE(got.empty()) << "no pass " << GetParam().pass;
  if (std::getenv("ACT_REGENERATE_GOLDEN_DUMPS")) {
    std::ofstream(path) << got;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path << " is missing: run tests/golden_dumps/regenerate.sh";
  std::ostringstream want;
  want << file.rdbuf();
  EXPECT_TRUE(want.str() == got)
      << path << ", " << FirstDifference(want.str(), got)
      << "where that is intended, run tests/golden_dumps/regenerate.sh and review the diff";
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenDumps, ::testing::ValuesIn(kDumps), [](const auto& dump) {
  std::string name = std::string(dump.param.model) + "_" + dump.param.level + "_" + dump.param.pass;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace act
