// actc --aot: code and engines for a card that is not here, in the plan.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/e2e/refusal.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

namespace fs = std::filesystem;

const std::string kModel = GoldenFolder() + "/lenet/model.onnx";
const std::string kH200 = ModelsFolder() + "/../kernels/nvidia/cards/h200.json";

class AotCli : public testing::Test {
 protected:
  std::string plan() const { return scratch_ / "plan.bin"; }
  std::vector<std::string> Compile(const std::vector<std::string>& more, const std::string& tool = "") const {
    std::vector<std::string> args = {tool.empty() ? ToolPath("actc") : tool, kModel, "-O", "L3", "--batch=4"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  // The tool in a folder of its own, where no library of a card stands beside it.
  std::string Alone(const std::string& tool) const {
    fs::copy_file(ToolPath(tool), scratch_ / tool, fs::copy_options::overwrite_existing);
    return scratch_ / tool;
  }
  // Bytes of the checkpoint after two steps.
  std::string Train(const std::string& from, const std::string& device, Outcome* outcome = nullptr) const {
    const Outcome run = RunTool(
        {ToolPath("actrun"), from, "--steps=2", "--device=" + device, "--save=" + (scratch_ / "end")});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    if (outcome) *outcome = run;
    return ReadFile(scratch_ / "end");
  }

  const ScratchFolder scratch_;
};

TEST_F(AotCli, WantsACardAndAPlan) {
  for (const char* target : {"--target=cpu", "--target=cuda", "--target=all"})
    ExpectWrongUsage(Compile({"--aot", target, "-o", plan()}),
                     {"--aot: code and engines are made for one kind of card", "--target=cuda:CARD", "h200"});
  ExpectWrongUsage(Compile({"--aot", "--target=cuda:h200"}), {"--aot: fills a plan", "give -o PLAN"});
}

TEST_F(AotCli, WithoutTheLibraryIsOneError) {
  ExpectRefused(Compile({"--aot", "--target=cuda:h200", "-o", plan()}, Alone("actc")),
                {"--target=cuda:h200", "libact_cuda.so"});
  EXPECT_FALSE(Exists(plan()));
}

TEST_F(AotCli, ADescriptionIsACardOfTheReport) {
  const std::string card = scratch_ / "card.json";
  WriteFile(card, R"({"deviceName": "My card", "totalGlobalMem": 8589934592})");
  const std::string report = ExpectDone(Compile({"--target=cuda:" + card}));
  EXPECT_NE(report.find("  My card "), std::string::npos) << report;
  EXPECT_NE(report.find("7.00 GiB"), std::string::npos) << report;  // and one for the driver
  ExpectWrongUsage(Compile({"--target=cuda:" + (scratch_ / "absent.json")}),
                   {"absent.json", "cannot read", "how to record a description"});
  WriteFile(card, R"({"deviceName": "My card"})");
  ExpectWrongUsage(Compile({"--target=cuda:" + card}), {"card.json describes no card", "\"totalGlobalMem\""});
  WriteFile(card, "no JSON");
  ExpectWrongUsage(Compile({"--target=cuda:" + card}), {"card.json describes no card"});
}

class AotPlan : public AotCli {
 protected:
  void SetUp() override {
    if (!Exists(ToolPath("libact_cuda.so"))) GTEST_SKIP() << "libact_cuda.so was not built: no CUDA toolkit";
    ExpectDone(Compile({"-o", without(), "--target=cuda:h200", "--report=none"}));
    ExpectDone(Compile({"-o", plan(), "--target=cuda:h200", "--aot", "--report=none"}));
  }
  std::string without() const { return scratch_ / "without.bin"; }
};

TEST_F(AotPlan, IsShownWithItsEngines) {
  const std::string shown = ExpectDone({ToolPath("actplan"), "show", plan()});
  EXPECT_NE(shown.find(" engines for NVIDIA H200 at batch 4, "), std::string::npos) << shown;
  EXPECT_NE(shown.find("\nengines for NVIDIA H200\n"), std::string::npos) << shown;
  // Its convolutions in float32 and in tf32, with the numbers of each engine.
  for (const char* part : {"\n  convolution x 4x16x16x1 w 8x5x5x1 y 4x16x16x8", " float32 aligned 16 within ",
                           " tf32 aligned 16 within ", " bytes: cudnn engine ", ", workspace 0 bytes"})
    EXPECT_NE(shown.find(part), std::string::npos) << part << " in\n" << shown;
  EXPECT_NE(shown.find("NVRTC 13."), std::string::npos) << shown;
  EXPECT_NE(shown.find("; cuDNN 9."), std::string::npos) << shown;
  ExpectDone({ToolPath("actplan"), "verify", plan()});
  const std::string plain = ExpectDone({ToolPath("actplan"), "show", without()});
  EXPECT_NE(plain.find("prepared            nothing\n"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("cudnn"), std::string::npos) << plain;
  const std::string diff = ExpectDone({ToolPath("actplan"), "diff", without(), plan()});
  EXPECT_NE(diff.find("  prepared: nothing -> "), std::string::npos) << diff;
  EXPECT_EQ(std::count(diff.begin(), diff.end(), '\n'), 1) << diff;
}

TEST_F(AotPlan, IsTheSameEachTime) {
  const std::string again = scratch_ / "again.bin";
  ExpectDone(Compile({"-o", again, "--target=cuda:h200", "--aot", "--report=none"}));
  EXPECT_TRUE(ReadFile(plan()) == ReadFile(again));
}

TEST_F(AotPlan, RunsOnTheProcessorAndWithoutTheLibrary) {
  EXPECT_TRUE(Train(plan(), "cpu") == Train(without(), "cpu"));
  ExpectDone({Alone("actplan"), "show", plan()});
  ExpectDone({Alone("actrun"), plan(), "--steps=1"});
}

TEST_F(AotPlan, RunsOnAnotherCardWithOneLine) {
  Outcome outcome;
  EXPECT_TRUE(Train(plan(), "fake", &outcome) == Train(without(), "fake"));
  const std::string said = "actrun: the plan brings code and engines for NVIDIA H200 (NVRTC 13.";
  const size_t at = outcome.err.find(said);
  ASSERT_NE(at, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("the plan brings", at + said.size()), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("): kernels are compiled and engines chosen for this run\n"), std::string::npos)
      << outcome.err;
}

TEST_F(AotPlan, IsMadeForACardThatIsDescribed) {
  std::ifstream file(kH200);
  std::string json((std::istreambuf_iterator<char>(file)), {});
  const std::string name = "NVIDIA H200";
  json.replace(json.find(name), name.size(), "Card of a test");
  WriteFile(scratch_ / "card.json", json);
  ExpectDone(Compile({"-o", plan(), "--target=cuda:" + (scratch_ / "card.json"), "--aot", "--report=none"}));
  const std::string shown = ExpectDone({ToolPath("actplan"), "show", plan()});
  EXPECT_NE(shown.find(" engines for Card of a test at batch 4"), std::string::npos) << shown;
}

}  // namespace
}  // namespace act::e2e
