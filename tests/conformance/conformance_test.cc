// Every ONNX node test whose operators the importer claims: it passes, or exceptions.txt says why not.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/conformance/node_test.h"

namespace act::conformance {
namespace {

const std::string kFolder = ACT_ONNX_TESTDATA;
const std::string kExceptions = ACT_SOURCE_DIR "/tests/conformance/exceptions.txt";

struct Exception {
  Outcome outcome = Outcome::kRefused;
  std::string reason;
};

// Lines "refused TEST reason..." and "differs TEST reason...".
const std::map<std::string, Exception>& Exceptions() {
  static const std::map<std::string, Exception> exceptions = [] {
    std::map<std::string, Exception> map;
    std::ifstream file(kExceptions);
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string kind, test, reason;
      words >> kind >> test;
      std::getline(words >> std::ws, reason);
      EXPECT_TRUE(kind == "refused" || kind == "differs") << line;
      EXPECT_FALSE(reason.empty()) << line;
      const Outcome outcome = kind == "differs" ? Outcome::kDiffers : Outcome::kRefused;
      EXPECT_TRUE(map.emplace(test, Exception{outcome, reason}).second) << "twice: " << line;
    }
    return map;
  }();
  return exceptions;
}

const std::vector<std::string>& Tests() {
  static const std::vector<std::string> tests = NodeTests(kFolder);
  return tests;
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
  const Result result = RunNodeTest(kFolder, GetParam());
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

// One line a test: name, outcome, opset, operators, and why it did not pass.
void PrintTable() {
  for (const std::string& test : Tests()) {
    const Result result = RunNodeTest(kFolder, test);
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
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
