// actc --compare: the numbers of several levels are those of each level's own report, and what fits does.
#include <gtest/gtest.h>
#include <llvm/Support/JSON.h>

#include <map>
#include <sstream>

#include "tests/e2e/onnx_models.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

class Compare : public testing::Test {
 protected:
  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx"};
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

// The same choice as --memory-limit's, at the same peak.
TEST_F(Compare, ALimitIsTheStepThatMemoryLimitChooses) {
  const std::string page = scratch_ / "page.html";
  const int64_t limit = Single("L3", 64, "arena_bytes") * 11 / 10;
  const std::string entry = "auto:" + std::to_string(limit);
  const std::string table =
      ExpectDone(Command({"--compare=" + entry + ",L3", "--batch=64", "--report-html=" + page}));
  const std::string single = ExpectDone(Command({"--memory-limit=" + std::to_string(limit), "--batch=64"}));
  const std::string before = "memory limit: ";
  const size_t at = single.find(before) + before.size();
  const std::string step = single.substr(at, single.find(" takes ") - at);
  EXPECT_NE(step, "L0");
  EXPECT_NE(table.find(entry + " is " + step + "\n"), std::string::npos) << table;
  EXPECT_NE(ReadFile(page).find("<b>" + step + "</b>"), std::string::npos);
  auto rows = Rows(table);
  EXPECT_NE(single.find(rows[entry][0] + " " + rows[entry][1]), std::string::npos) << table << single;
}

TEST_F(Compare, MicroBatchesHaveThePeaksOfTheirOwnReports) {
  const std::string table = ExpectDone(Command({"--compare=L3", "--batch=64", "--micro-batches=4,1,2"}));
  std::istringstream lines(table.substr(table.find("micro-batches, whose")));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  EXPECT_NE(line.find("1 x 64"), std::string::npos);
  EXPECT_LT(line.find("1 x 64"), line.find("2 x 32"));
  EXPECT_LT(line.find("2 x 32"), line.find("4 x 16"));
  for (const std::string level : {"L0", "L3"}) {
    std::getline(lines, line);
    EXPECT_NE(line.find(level), std::string::npos) << line;
    for (const int count : {1, 2, 4}) {
      const std::string single = ExpectDone(Command(
          {"-O", level, "--batch=" + std::to_string(64 / count), "--accumulate=" + std::to_string(count)}));
      std::istringstream words(single.substr(single.find("peak")));
      std::string word, number, unit;
      words >> word >> number >> unit;
      EXPECT_NE(line.find(number + " " + unit), std::string::npos) << line << single;
    }
  }
}

// As the single reports do: at this batch L0 takes more than the 78 GiB that an H100 leaves, and L3 less.
TEST_F(Compare, ACardTellsWhichPlansFit) {
  const std::string page = scratch_ / "page.html";
  const auto card = [&](const std::string& levels, const std::string& batch) {
    return ExpectDone(Command({levels, "--target=cuda:h100", "--batch=" + batch, "--report-html=" + page}));
  };
  const std::string large = card("--compare=L3", "1400000");
  EXPECT_NE(large.find("h100 leaves 78.0 GiB to an arena: too large for it: L0\n"), std::string::npos)
      << large;
  EXPECT_NE(ReadFile(page).find("too large for it: L0."), std::string::npos);
  EXPECT_NE(ReadFile(page).find("<th>h100</th>"), std::string::npos);
  EXPECT_NE(card("-O=L0", "1400000").find("for the arena, which does not fit"), std::string::npos);
  EXPECT_NE(card("-O=L3", "1400000").find("for the arena, which fits"), std::string::npos);
  const std::string small = card("--compare=L3", "64");
  EXPECT_NE(small.find("to an arena: all fit\n"), std::string::npos) << small;
}

TEST_F(Compare, AGpusShareIsInEveryPeakAndInWhatFits) {
  constexpr int64_t kShare = 3 << 20, kLimit = 11 << 20;
  const auto with = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--compare=L3", "--target=cuda", "--batch=64"};
    all.insert(all.end(), flags.begin(), flags.end());
    return Rows(ExpectDone(Command(all)));
  };
  auto alone = with({"--fit=" + std::to_string(kLimit - kShare)});
  auto shared = with({"--fit=" + std::to_string(kLimit), "--gpu-share=" + std::to_string(kShare)});
  for (const std::string level : {"L0", "L3"}) {
    EXPECT_EQ(alone[level].back(), shared[level].back()) << level;
    EXPECT_NEAR(std::stod(shared[level][0]), std::stod(alone[level][0]) + 3, .02) << level;
  }
}

// Exact steps add nothing; fewer bits add more. A re-run takes time.
TEST_F(Compare, TellsVarianceAndTime) {
  auto rows = Rows(ExpectDone(Command({"--compare=actnn-L3,actnn-L1,L4,blpa", "--batch=64"})));
  const auto variance = [&](const std::string& level) { return rows[level].at(11); };
  EXPECT_EQ(variance("L0"), "0") << rows["L0"].size();
  EXPECT_GT(std::stod(variance("actnn-L3")), std::stod(variance("actnn-L1")));
  EXPECT_GT(std::stod(variance("actnn-L1")), 0);
  const std::string page = scratch_ / "page.html";
  const std::string table = ExpectDone(Command({"--compare=L4,blpa", "--report-html=" + page}));
  EXPECT_NE(table.find("not known"), std::string::npos) << table;
  EXPECT_NE(table.find("time to L0"), std::string::npos) << table;
  EXPECT_NE(ReadFile(page).find("expected time"), std::string::npos);
  // Nothing is known of a GPU's speed unless it is said.
  const std::string gpu = ExpectDone(Command({"--compare=L4", "--target=cuda"}));
  EXPECT_EQ(gpu.find("time to L0"), std::string::npos) << gpu;
  EXPECT_NE(ExpectDone(Command({"--compare=L4", "--target=cuda", "--rates=4e4,3e3"})).find("time to L0"),
            std::string::npos);
}

// A file as RatesOfThisMachine writes it makes the times. One that is damaged, or another machine's, is measured anew,
// and no plan depends on it.
TEST_F(Compare, TimesAreThoseOfTheMachinesFile) {
  const std::string folder = scratch_ / "cache";
  const auto run = [&](const std::string& rates) {
    std::vector<std::string> command = Command({"--compare=L3", "--batch=64", "--rates=" + rates});
    command.insert(command.begin(), {"/usr/bin/env", "ACT_TUNE_CACHE=" + folder});
    Outcome outcome = RunTool(command);
    EXPECT_EQ(outcome.exit_code, 0) << Describe(command, outcome);
    return outcome;
  };
  const Outcome first = run("measured");
  EXPECT_NE(first.err.find("measuring this machine's rates"), std::string::npos) << first.err;
  EXPECT_NE(first.out.find("measured on this machine"), std::string::npos) << first.out;
  const std::vector<std::string> files = List(folder);
  ASSERT_EQ(files.size(), 1u);
  const std::string path = folder + "/" + files[0], text = ReadFile(path);
  const size_t rates = text.find("product_gflops"), machine = text.find("machine: ");
  ASSERT_NE(rates, std::string::npos) << text;
  // What the file says is what counts.
  WriteFile(path, text.substr(0, rates) + "product_gflops: 77.0\nrounded_gflops: 88.0\ngbytes: 9.0\n");
  const Outcome kept = run("measured");
  EXPECT_NE(kept.err.find("rates of " + path), std::string::npos) << kept.err;
  EXPECT_NE(
      kept.out.find("time: at 77 GFLOP/s of products, 88 of those that may be rounded and 9 GB/s, measured"),
      std::string::npos)
      << kept.out;
  EXPECT_NE(run("77,9").out.find("time: at 77 GFLOP/s of products and 9 GB/s, given"), std::string::npos);
  const std::vector<std::pair<std::string, std::string>> damaged = {
      {"", "line 1 is not 'machine: "},
      {"machine: another one\n" + text.substr(rates), "line 1 is not 'machine: "},
      {text.substr(machine, rates - machine) + "product_gflops: fast\n",
       "line 2 is not 'product_gflops: NUMBER'"},
      {text.substr(0, text.size() - 1), "is not 'gbytes: NUMBER'"},
      {text.substr(0, rates) + "product_gflops: 0\nrounded_gflops: 1\ngbytes: 1\n", "product_gflops"}};
  for (const auto& [content, wrong] : damaged) {
    WriteFile(path, content);
    const Outcome again = run("measured");
    EXPECT_NE(again.err.find("warning: " + path + " does not count: "), std::string::npos) << again.err;
    EXPECT_NE(again.err.find(wrong), std::string::npos) << again.err;
    EXPECT_NE(ReadFile(path).find(text.substr(0, rates)), std::string::npos) << "the file is new";
  }
  ExpectWrongUsage(Command({"--compare=L3", "--target=cuda", "--rates=measured"}),
                   {"--rates: measured are those of the processor"});
}

TEST_F(Compare, WrongUsageIsExit2) {
  for (const char* entry : {"auto", "auto:", "auto:0", "auto:-1", "auto:1EiB", "auto:nan", "auto:2e18"})
    ExpectWrongUsage(Command({std::string("--compare=L0,") + entry, "--batch=4"}),
                     {"--compare: expected auto:SIZE, found '" + std::string(entry) + "'"});
  ExpectWrongUsage(Command({"--compare=L3", "--compute=auto"}), {"--compute: auto chooses by the memory"});
  ExpectWrongUsage(Command({"--compare=L3", "--gpu-share=1GiB"}), {"--gpu-share", "give --target=cuda"});
  const auto on_gpu = [this](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--target=cuda", "--batch=4"});
    return Command(flags);
  };
  for (const char* share : {"--gpu-share=0", "--gpu-share=-1", "--gpu-share=much", "--gpu-share=1EiB"})
    ExpectWrongUsage(on_gpu({"--compare=L3", share}), {"--gpu-share: '", "' is not a size"});
  ExpectWrongUsage(on_gpu({"--compare=L3", "--gpu-share=2GiB", "--fit=1GiB"}),
                   {"--gpu-share: 2.00 GiB leave nothing of --fit, 1.00 GiB"});
  ExpectWrongUsage(on_gpu({"--compare=auto:1GiB", "--gpu-share=1GiB"}),
                   {"--gpu-share: 1.00 GiB leave nothing of auto:1GiB"});
  ExpectWrongUsage(Command({"--compare=L3", "--batch=64", "--micro-batches=2,3"}),
                   {"--micro-batches: 3 do not divide the batch of 64"});
  for (const char* counts : {"0", "-2", "two", "2,,4", "2.5"})
    ExpectWrongUsage(Command({"--compare=L3", "--batch=64", std::string("--micro-batches=") + counts}),
                     {"--micro-batches: expected numbers of micro-batches"});
  ExpectWrongUsage(Command({"--compare=L3", "--batch=64", "--micro-batches=2", "--accumulate=2"}),
                   {"--micro-batches", "give one of them"});
  ExpectWrongUsage(Command({"--compare=L3", "--batch=64", "--micro-batches=2", "--optimizer=none"}),
                   {"--micro-batches: needs an optimizer"});
  for (const char* rates : {"140", "140,0", "-1,12", "nan,12", "140,12,1", "fast,12"})
    ExpectWrongUsage(Command({"--compare=L3", std::string("--rates=") + rates}),
                     {"--rates: expected measured or GFLOPS,GBPS"});
  for (const char* flag : {"--gpu-share=1GiB", "--micro-batches=2", "--rates=1,1"})
    ExpectWrongUsage(Command({flag}), {"is a part of --compare"});
  ExpectWrongUsage(Command({"--compare="}), {"--compare: expected LEVEL"});
  ExpectWrongUsage(Command({"--compare=L0,,L3"}), {"--compare: a level is missing", "--compare=L0,L3,L4"});
  ExpectWrongUsage(Command({"--compare=L0,L9"}), {"--compare", "L9"});
  ExpectWrongUsage(Command({"--compare=L0,L3,L3"}), {"--compare: L3 is there twice"});
  ExpectWrongUsage(Command({"--compare=L3", "-o", scratch_ / "plan"}), {"--compare", "-o is for one plan"});
  ExpectWrongUsage(Command({"--compare=L3", "-O", "L3"}), {"--compare", "-O is for one plan"});
  ExpectWrongUsage(Command({"--compare=L3", "--bits=3"}), {"--compare", "--bits is for one plan"});
  ExpectWrongUsage(Command({"--compare=L3", "--target=all"}), {"--compare: is for one target"});
  ExpectWrongUsage(Command({"--fit=1GiB"}), {"--fit: is a part of --compare"});
  for (const char* fit : {"--fit=0", "--fit=lots", "--fit=-1", "--fit=1GiB:", "--fit=2e18"})
    ExpectWrongUsage(Command({"--compare=L3", fit}), {"--fit: expected SIZE or SIZE:DIM"});
  ExpectWrongUsage(Command({"--compare=L3", "--fit=1GiB:T"}),
                   {"--fit", "'T' has no start", "--dim=T=EXTENT"});
}

TEST_F(Compare, RefusesWhatCannotFit) {
  ExpectRefused(Command({"--compare=L3", "--fit=4KiB"}), {"--fit: 4.00 KiB", "less than parameters"});
  ExpectRefused(Command({"--compare=auto:1GiB"}), {"auto:1GiB", "chosen for a batch, and none is given"});
  ExpectRefused(Command({"--compare=auto:4KiB", "--batch=64"}), {"auto:4KiB", "alone take"});
  OnnxModel fixed;
  fixed.Input("x", onnx::TensorProto::FLOAT, {2, 4})
      .Weight("w", {4, 4})
      .Node("product", "MatMul", {"x", "w"}, "y")
      .Mean("mean", "y", "loss")
      .Output("loss", {});
  WriteFile(scratch_ / "fixed.onnx", fixed.Bytes());
  ExpectRefused({ToolPath("actc"), scratch_ / "fixed.onnx", "--compare=L0", "--fit=1GiB"},
                {"--fit: the model's batch is fixed"});
  ExpectRefused({ToolPath("actc"), scratch_ / "fixed.onnx", "--compare=L0", "--batch=2", "--micro-batches=2"},
                {"--micro-batches: the model's batch is fixed"});
  // It is the batch that a limit needs.
  ExpectDone({ToolPath("actc"), scratch_ / "fixed.onnx", "--compare=auto:1GiB"});
}

}  // namespace
}  // namespace act::e2e
