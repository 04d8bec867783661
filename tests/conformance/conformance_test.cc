// Every ONNX node test whose operators the importer claims either passes, or exceptions.txt says
// why it does not.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/conformance/exceptions.h"
#include "tests/conformance/node_test.h"
#include "tests/conformance/operators_document.h"
#include "tests/paths.h"

namespace act::conformance {
namespace {

const std::string kFolder = ACT_ONNX_TESTDATA;
const std::string kDocument = SourceFolder() + "/docs/operators.md";

const std::vector<std::string>& Tests() {
  static const std::vector<std::string> tests = NodeTests(kFolder);
  return tests;
}

// Each test runs once, however many checks ask for its outcome.
const Result& ResultOf(const std::string& test) {
  static std::map<std::string, Result> results;
  const auto it = results.find(test);
  return it != results.end() ? it->second : results.emplace(test, RunNodeTest(kFolder, test)).first->second;
}

std::map<std::string, Result> AllResults() {
  std::map<std::string, Result> all;
  for (const std::string& test : Tests()) all.emplace(test, ResultOf(test));
  return all;
}

std::map<Outcome, int> counts;

class NodeTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void TearDownTestSuite() {
    std::printf("node tests: %d passed, %d exceptions, %d of operators that are not claimed\n",
                counts[Outcome::kPassed], counts[Outcome::kRefused] + counts[Outcome::kDiffers],
                counts[Outcome::kNotClaimed]);
  }
};

TEST_P(NodeTest, GivesOnnxsNumbers) {
  const Result& result = ResultOf(GetParam());
  ++counts[result.outcome];
  const auto exception = Exceptions().find(GetParam());
  if (exception != Exceptions().end()) {
    EXPECT_EQ(result.outcome, exception->second.outcome)
        << (result.outcome == Outcome::kPassed ? "passes now: take it off exceptions.txt" : result.detail);
    return;
  }
  if (result.outcome == Outcome::kNotClaimed) GTEST_SKIP() << result.detail;
  EXPECT_EQ(result.outcome, Outcome::kPassed)
      << (result.outcome == Outcome::kRefused ? "refused: " : "") << result.detail;
}

INSTANTIATE_TEST_SUITE_P(Onnx, NodeTest, ::testing::ValuesIn(Tests()), [](const auto& test_info) {
  return test_info.param.substr(std::string("test_").size());
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NodeTest);

TEST(NodeTests, AreInstalled) {
  EXPECT_FALSE(Tests().empty()) << "no node tests in " << kFolder
                                << "; scripts/setup.sh installs libonnx-testdata";
}

// Models of a few operators, in addition to the node tests: a Gradient node needs others
// to differentiate.
TEST(SimpleTests, GradientsAreOnnxsNumbers) {
  for (const char* test : {"test_gradient_of_add", "test_gradient_of_add_and_mul"}) {
    const Result result = RunNodeTest(kFolder + "/../simple", test);
    EXPECT_EQ(result.outcome, Outcome::kPassed) << test << ": " << result.detail;
  }
}

TEST(OperatorsDocument, SaysWhatTheTestsShow) {
  if (Tests().size() != 932) GTEST_SKIP() << "written for the 932 tests of ONNX 1.12, not " << Tests().size();
  std::ifstream file(kDocument);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(text == OperatorsDocument(AllResults())) << kDocument << " is out of date: make docs-operators";
}

const char* Name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kNotClaimed:
      return "not claimed";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kDiffers:
      return "differs";
  }
  return "";
}

// One line per test: name, outcome, opset, operators, and the reason if it did not pass.
void PrintTable() {
  for (const std::string& test : Tests()) {
    const Result& result = ResultOf(test);
    std::string ops;
    for (const std::string& op : result.ops) ops += (ops.empty() ? "" : ",") + op;
    std::printf("%s\t%s\t%ld\t%s\t%s\n", test.c_str(), Name(result.outcome), result.opset, ops.c_str(),
                result.detail.substr(0, result.detail.find('\n')).c_str());
  }
}

}  // namespace
}  // namespace act::conformance

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--list") return act::conformance::PrintTable(), 0;
  if (argc == 2 && std::string(argv[1]) == "--markdown")
    return std::fputs(act::conformance::OperatorsDocument(act::conformance::AllResults()).c_str(), stdout) <
           0;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
