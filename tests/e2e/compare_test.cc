// actc --compare: the numbers of several levels are those of each level's own report, and what fits does.
#include <gtest/gtest.h>
#include <llvm/Support/JSON.h>

#include <map>
#include <sstream>

#include "tests/e2e/onnx_models.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"

namespace act::e2e {
namespace {

class Compare : public testing::Test {
 protected:
  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {ToolPath("actc"), std::string(ACT_MODELS_DIR) + "/digits_resnet.onnx"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  // A number of a level's own report.
  int64_t Single(const std::string& level, int64_t batch, const std::string& key) const {
    const std::string json = scratch_ / "report.json";
    ExpectDone(Command({"-O", level, "--batch=" + std::to_string(batch), "--report-json=" + json}));
    llvm::Expected<llvm::json::Value> report = llvm::json::parse(ReadFile(json));
    EXPECT_TRUE(static_cast<bool>(report));
    return report ? report->getAsObject()->getInteger(key).value_or(-1) : -1;
  }
  // The words of each row of the table by its first one.
  static std::map<std::string, std::vector<std::string>> Rows(const std::string& table) {
    std::map<std::string, std::vector<std::string>> rows;
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string first, word;
      words >> first;
      while (words >> word) rows[first].push_back(word);
    }
    return rows;
  }
  // "3.20" of a ratio of bytes.
  static double Factor(int64_t of, int64_t to) { return static_cast<double>(of) / static_cast<double>(to); }

  ScratchFolder scratch_;
};

TEST_F(Compare, HasThePeaksOfTheSingleReports) {
  const std::string page = scratch_ / "page.html";
  auto rows = Rows(ExpectDone(Command({"--compare=L3,L0,L4", "--batch=64", "--report-html=" + page})));
  const int64_t exact = Single("L0", 64, "peak_bytes"), saved = Single("L0", 64, "saved_bytes");
  const std::string html = ReadFile(page);
  for (const std::string level : {"L0", "L3", "L4"}) {
    ASSERT_GE(rows[level].size(), 6u) << level;
    const int64_t peak = Single(level, 64, "peak_bytes");
    // As ReportText prints it.
    const std::string single = ExpectDone(Command({"-O", level, "--batch=64"}));
    const std::string printed = rows[level][0] + " " + rows[level][1];
    EXPECT_NE(single.find(printed), std::string::npos) << level << ": " << printed << "\n" << single;
    EXPECT_NE(html.find(level + " <b>" + printed + "</b>"), std::string::npos) << level;
    if (level == "L0") continue;
    // Two decimals are printed.
    EXPECT_NEAR(std::stod(rows[level][2]), Factor(exact, peak), .0051) << level;
    EXPECT_EQ(rows[level][3], "less");
    EXPECT_NEAR(std::stod(rows[level][6]), Factor(saved, Single(level, 64, "saved_bytes")), .0051) << level;
  }
  EXPECT_EQ(rows["L0"][2], "the");  // same
}

TEST_F(Compare, TheBatchFoundFitsAndTheNextDoesNot) {
  constexpr int64_t kLimit = 8 << 20;
  auto rows = Rows(ExpectDone(Command({"--compare=L3", "--fit=8MiB"})));
  for (const std::string level : {"L0", "L3"}) {
    ASSERT_FALSE(rows[level].empty());
    const int64_t batch = std::stoll(rows[level].back());
    ASSERT_GT(batch, 1) << level;
    EXPECT_LE(Single(level, batch, "arena_bytes"), kLimit) << level;
    EXPECT_GT(Single(level, batch + 1, "arena_bytes"), kLimit) << level;
  }
}

// x f32[N,T,4] -> MatMul -> Relu -> the mean of all.
TEST_F(Compare, TheExtentFoundFitsAndTheNextDoesNot) {
  const std::string model = scratch_ / "model.onnx";
  OnnxModel sequence;
  sequence.Input("x", onnx::TensorProto::FLOAT, {"N", "T", 4})
      .Weight("w", {4, 4})
      .Node("product", "MatMul", {"x", "w"}, "y")
      .Node("relu", "Relu", {"y"}, "z")
      .Mean("mean", "z", "loss")
      .Output("loss", {});
  WriteFile(model, sequence.Bytes());
  const auto arena = [&](int64_t extent) {
    const std::string json = scratch_ / "report.json";
    ExpectDone({ToolPath("actc"), model, "--dim=T=" + std::to_string(extent), "--report-json=" + json});
    llvm::Expected<llvm::json::Value> report = llvm::json::parse(ReadFile(json));
    EXPECT_TRUE(static_cast<bool>(report));
    return report ? report->getAsObject()->getInteger("arena_bytes").value_or(-1) : -1;
  };
  for (const std::string start : {"3", "100000"}) {  // the search goes up, and down
    auto rows =
        Rows(ExpectDone({ToolPath("actc"), model, "--compare=L0", "--dim=T=" + start, "--fit=4MiB:T"}));
    const int64_t extent = std::stoll(rows["L0"].back());
    ASSERT_GT(extent, 1);
    EXPECT_LE(arena(extent), 4 << 20);
    EXPECT_GT(arena(extent + 1), 4 << 20);
  }
}

TEST_F(Compare, WrongUsageIsExit2) {
  ExpectWrongUsage(Command({"--compare="}), {"--compare: a level is missing", "--compare=L0,L3,L4"});
  ExpectWrongUsage(Command({"--compare=L0,,L3"}), {"--compare: a level is missing"});
  ExpectWrongUsage(Command({"--compare=L0,L9"}), {"--compare", "L9"});
  ExpectWrongUsage(Command({"--compare=L0,L3,L3"}), {"--compare: L3 is there twice"});
  ExpectWrongUsage(Command({"--compare=L3", "-o", scratch_ / "plan"}), {"--compare", "-o is for one plan"});
  ExpectWrongUsage(Command({"--compare=L3", "-O", "L3"}), {"--compare", "-O is for one plan"});
  ExpectWrongUsage(Command({"--compare=L3", "--bits=3"}), {"--compare", "--bits is for one plan"});
  ExpectWrongUsage(Command({"--compare=L3", "--target=all"}), {"--compare: is for one target"});
  ExpectWrongUsage(Command({"--fit=1GiB"}), {"--fit: is a column of --compare"});
  for (const char* fit : {"--fit=0", "--fit=", "--fit=lots", "--fit=-1", "--fit=1GiB:", "--fit=2e18"})
    ExpectWrongUsage(Command({"--compare=L3", fit}), {"--fit: expected SIZE or SIZE:DIM"});
  ExpectWrongUsage(Command({"--compare=L3", "--fit=1GiB:T"}),
                   {"--fit", "'T' has no start", "--dim=T=EXTENT"});
}

TEST_F(Compare, RefusesWhatCannotFit) {
  ExpectRefused(Command({"--compare=L3", "--fit=4KiB"}), {"--fit: 4.00 KiB", "less than parameters"});
  OnnxModel fixed;
  fixed.Input("x", onnx::TensorProto::FLOAT, {2, 4})
      .Weight("w", {4, 4})
      .Node("product", "MatMul", {"x", "w"}, "y")
      .Mean("mean", "y", "loss")
      .Output("loss", {});
  WriteFile(scratch_ / "fixed.onnx", fixed.Bytes());
  ExpectRefused({ToolPath("actc"), scratch_ / "fixed.onnx", "--compare=L0", "--fit=1GiB"},
                {"--fit: the model's batch is fixed"});
}

}  // namespace
}  // namespace act::e2e
