// What actc promises its caller: exit codes, messages that name the place, and no file left by
// a failed request. actc_models_test.cc has models that it refuses.
#include <gtest/gtest.h>

#include "tests/e2e/actc_command.h"
#include "tests/e2e/onnx_models.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

class Actc : public ActcCommand {};

TEST_F(Actc, CompilesAClassifier) {
  ExpectDone(Command(Write(Classifier().Bytes())));
  EXPECT_TRUE(Exists(plan()));
  EXPECT_EQ(List(scratch_.path()), (std::vector<std::string>{"model.onnx", "plan.bin"}));
}

TEST_F(Actc, HelpAndVersionGoToStandardOutput) {
  EXPECT_NE(ExpectDone({ToolPath("actc"), "--help"}).find("--optimizer"), std::string::npos);
  EXPECT_NE(ExpectDone({ToolPath("actc"), "--version"}).find("0.1"), std::string::npos);
}

TEST_F(Actc, WrongUsageIsExit2) {
  const std::string model = Write(Classifier().Bytes());
  ExpectWrongUsage({ToolPath("actc")}, {});
  ExpectWrongUsage(Command(model, {"--no-such-flag"}), {"--no-such-flag"});
  ExpectWrongUsage({ToolPath("actc"), model, "-O", "L9", "-o", plan()}, {"L9"});
  ExpectWrongUsage(Command(model, {"--batch=0"}), {"batch"});
  ExpectWrongUsage(Command(model, {"--batch=-3"}), {"batch"});
  ExpectWrongUsage(Command(model, {"--batch=many"}), {"batch"});
  ExpectWrongUsage(Command(model, {"--workspace=lots"}), {"workspace"});
  ExpectNoPlan();
}

TEST_F(Actc, WarnsOfAFlagThatChangesNothing) {
  const auto messages = [&](const std::string& model) {
    const std::vector<std::string> command = Command(model, {"--freeze-bn"});
    const Outcome outcome = RunTool(command);
    EXPECT_EQ(outcome.exit_code, 0) << Describe(command, outcome);
    return outcome.err;
  };
  EXPECT_EQ(messages(Write(Classifier().Bytes())),
            "actc: warning: --freeze-bn: the model has no BatchNormalization\n");
  EXPECT_EQ(messages(ModelsFolder() + "/digits_resnet.onnx"), "");
}

TEST_F(Actc, ReportsTheTargetThatIsAsked) {
  const auto report = [](const std::vector<std::string>& more, const std::string& batch = "64") {
    std::vector<std::string> args = {ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-O", "L3",
                                     "--batch=" + batch};
    args.insert(args.end(), more.begin(), more.end());
    return ExpectDone(args);
  };
  const std::string plain = report({}), cpu = report({"--target=cpu"}), cuda = report({"--target=cuda"}),
                    card = report({"--target=cuda:h200"}), all = report({"--target=all"});
  EXPECT_EQ(plain, cpu);
  EXPECT_EQ(plain.find("target"), std::string::npos) << plain;
  EXPECT_NE(cuda.find("batch 64, target cuda\n"), std::string::npos) << cuda;
  EXPECT_NE(card.find("GiB  for the arena, which fits; largest batch "), std::string::npos) << card;
  EXPECT_NE(report({"--target=cuda:l4"}, "10000000").find("which does not fit"), std::string::npos);
  // Both reports, the CPU's first.
  const size_t first = all.find("batch 64\n"), second = all.find("batch 64, target cuda\n");
  ASSERT_NE(first, std::string::npos) << all;
  ASSERT_NE(second, std::string::npos) << all;
  EXPECT_LT(first, second);
  const std::string json = scratch_ / "report.json";
  report({"--target=cuda", "--report-json=" + json});
  EXPECT_NE(ReadFile(json).find("\"target\": \"cuda\""), std::string::npos);
}

TEST_F(Actc, NamesTheTargetsAndCardsThatThereAre) {
  const std::string model = Write(Classifier().Bytes());
  for (const char* target : {"--target=tpu", "--target=cpu:h200", "--target=CUDA"})
    ExpectWrongUsage(Command(model, {target}), {"--target: expected cpu|cuda|cuda:CARD|all", "h100"});
  for (const char* target : {"--target=cuda:v100", "--target=cuda:"})
    ExpectWrongUsage(Command(model, {target}), {"--target: no such card", "h200, h100, a100, b200, l4"});
  for (const std::string flag : {"--report-json", "--report-html"})
    ExpectWrongUsage(Command(model, {"--target=all", flag + "=" + (scratch_ / "report")}),
                     {flag + ": holds the report of one target", "--target=cuda"});
  ExpectNoPlan();
}

TEST_F(Actc, RefusesBitsOutOfRange) {
  for (const char* bits : {"0", "0.5", "9", "300", "-2", "nan"}) {
    const std::vector<std::string> command = {
        ToolPath("actc"), GoldenFolder() + "/lenet/model.onnx", "-O", "L2",
        "--report=none",  std::string("--bits=") + bits};
    const Outcome outcome = RunTool(command);
    EXPECT_NE(outcome.exit_code, 0) << Describe(command, outcome);
    EXPECT_NE(outcome.err.find("--bits: must be 1 to 8"), std::string::npos) << Describe(command, outcome);
  }
}

// Scales, and the masks in a code of numbers, take their bytes however few levels there are. The
// budget that the error calls possible is possible.
TEST_F(Actc, ABudgetBelowTheLeastNamesTheLeast) {
  for (const std::string level : {"L2", "L3", "L4"}) {
    const std::string model = ModelsFolder() + "/digits_resnet.onnx";
    const auto args = [&](const std::string& bits) {
      return std::vector<std::string>{ToolPath("actc"), model,          "-O", level,
                                      "--bits=" + bits, "--report=none"};
    };
    const auto least = [&](const std::string& bits) {
      const std::string error = ExpectRefused(args(bits), {"--bits: an average of"});
      const std::string before = "the least possible is ";
      const size_t at = error.find(before);
      EXPECT_NE(at, std::string::npos) << error;
      return at == std::string::npos ? "8" : error.substr(at + before.size(), 5);
    };
    // At more bits on average, anchors need a higher minimum. So the first answer may be
    // slightly too low.
    const std::string bits = least("1.01");
    ExpectDone(args(RunTool(args(bits)).exit_code == 0 ? bits : least(bits)));
  }
}

TEST_F(Actc, ALimitBelowTheLeastNamesTheLeast) {
  for (const std::string level : {"L2", "L3", "L4"}) {
    const auto args = [&](const std::string& limit) {
      return std::vector<std::string>{
          ToolPath("actc"),        ModelsFolder() + "/digits_resnet.onnx", "-O", level, "--batch=7",
          "--saved-limit=" + limit};
    };
    const std::string error = ExpectRefused(args("1KiB"), {"--saved-limit", "at batch 7"});
    const std::string before = "the least possible is ";
    const size_t at = error.find(before);
    ASSERT_NE(at, std::string::npos) << error;
    const std::string least = error.substr(at + before.size(), error.find(" bytes") - at - before.size());
    ExpectDone(args(least));
    ExpectRefused(args(std::to_string(std::stoll(least) - 1)), {"fewest levels"});
  }
}

TEST_F(Actc, RefusesALimitThatNothingCanKeep) {
  const std::string model = GoldenFolder() + "/lenet/model.onnx";
  for (const auto& [level, flags, word] :
       {std::tuple{"L0", std::vector<std::string>{"--saved-limit=1MB"}, "no codes"},
        std::tuple{"acgc", std::vector<std::string>{"--saved-limit=1MB"}, "derives bits"},
        std::tuple{"L3", std::vector<std::string>{"--saved-limit=1MB", "--bits=3"}, "give one of them"},
        std::tuple{"L3", std::vector<std::string>{"--saved-limit=much"}, "not a size"}}) {
    std::vector<std::string> command = {ToolPath("actc"), model, "-O", level, "--report=none"};
    command.insert(command.end(), flags.begin(), flags.end());
    const Outcome outcome = RunTool(command);
    EXPECT_EQ(outcome.exit_code, 2) << Describe(command, outcome);
    EXPECT_NE(outcome.err.find(word), std::string::npos) << Describe(command, outcome);
  }
}

TEST_F(Actc, ChoosesTheStepThatFitsTheMemoryThereIs) {
  const std::string model = GoldenFolder() + "/resnet_basic/model.onnx";
  const auto with = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {ToolPath("actc"), model, "--batch=64"};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunTool(command);
  };
  EXPECT_NE(with({"--memory-limit=1GiB"}).out.find("memory limit: L0 takes "), std::string::npos);
  const Outcome chosen = with({"-O", "auto", "--memory-limit=4.5MiB"});
  EXPECT_NE(chosen.out.find("the next better step, "), std::string::npos) << chosen.out << chosen.err;
  // State in 8 bits is a choice for a card, too.
  const Outcome on_card =
      with({"--memory-limit=4.5MiB", "--optimizer=adam", "--optimizer-state=auto", "--target=cuda"});
  EXPECT_NE(on_card.out.find("--optimizer-state=8bit"), std::string::npos) << on_card.out << on_card.err;
  struct Case {
    std::vector<std::string> flags;
    const char* word;
    int exit_code;
  };
  for (const Case& c :
       {Case{{"-O", "auto"}, "give --memory-limit=SIZE", 2},
        {{"--memory-limit=0"}, "not a size", 2},
        {{"--memory-limit=-1"}, "not a size", 2},
        {{"--memory-limit=2e18"}, "not a size", 2},
        {{"--memory-limit=8MB", "-O", "L3"}, "leave out -O", 2},
        {{"--memory-limit=8MB", "--bits=3"}, "leave out --bits", 2},
        {{"--memory-limit=8MB", "--saved-limit=1MB"}, "give one of them", 2},
        {{"--memory-limit=8MB", "--plugin=x.so"}, "give one of them", 2},
        {{"--memory-limit=1KiB"}, "alone take", 1},
        {{"--compute=auto"}, "give --memory-limit=SIZE", 2},
        {{"--host-limit=1GiB", "--target=cuda"}, "give --memory-limit=SIZE", 2},
        {{"--host-limit=1GiB", "--memory-limit=8MB"}, "give --target=cuda", 2},
        {{"--host-limit=1GiB", "--memory-limit=8MB", "--target=all"}, "give --target=cuda", 2},
        {{"--host-limit=much", "--memory-limit=8MB", "--target=cuda"}, "not a size", 2},
        {{"--optimizer=adam", "--optimizer-state=auto"}, "give --memory-limit=SIZE", 2},
        {{"--memory-limit=8MB", "--optimizer=adagrad", "--optimizer-state=auto"},
         "state in float32 alone",
         2}}) {
    const Outcome outcome = with(c.flags);
    EXPECT_EQ(outcome.exit_code, c.exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(c.word), std::string::npos) << c.word << "\n" << outcome.err;
  }
}

TEST_F(Actc, NamesTheFlagsThatWouldHelpAloneAndTogether) {
  const std::string error = ExpectRefused({ToolPath("actc"), GoldenFolder() + "/vgg_bn/model.onnx",
                                           "--optimizer=adamw", "--memory-limit=100KiB", "--batch=256"},
                                          {"alone take"});
  for (const char* flags : {"; with --optimizer-state=auto there is", "; with --compute=auto there is",
                            "; with --optimizer-state=auto and --compute=auto there is"})
    EXPECT_NE(error.find(flags), std::string::npos) << error;
}

TEST_F(Actc, ExplainsWhatAChoiceBoughtAndWhatIsMadeTwice) {
  const std::string model = GoldenFolder() + "/resnet_bottleneck/model.onnx";
  const auto with = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {ToolPath("actc"), model, "--batch=32", "--explain"};
    command.insert(command.end(), flags.begin(), flags.end());
    return ExpectDone(command);
  };
  EXPECT_EQ(with({"-O", "L4"}).find("made twice"), std::string::npos);
  const std::string least = with({"-O", "L5", "--report-json=" + (scratch_ / "least.json")});
  EXPECT_NE(least.find(": made twice, for the moments of the batch"), std::string::npos) << least;
  EXPECT_EQ(with({"--memory-limit=1GiB"}).find("without"), std::string::npos) << "L0 is no choice";
  llvm::Expected<llvm::json::Value> report = llvm::json::parse(ReadFile(scratch_ / "least.json"));
  ASSERT_TRUE(static_cast<bool>(report));
  const int64_t peak = report->getAsObject()->getInteger("peak_bytes").value_or(0);
  const std::string chosen = with({"--memory-limit=" + std::to_string(peak)});
  for (const char* words : {"memory limit: L5 with --bits=", "  without codes: ", " (L0)",
                            "  without products made twice and small tiles: ", " (L4 with --bits="})
    EXPECT_NE(chosen.find(words), std::string::npos) << words << chosen;
}

// The last loops over tiles may raise the peak of a small batch by a hundredth. Without them a batch of 256 takes 3.2
// times what one of 16 takes, and 2.4 times with them.
TEST_F(Actc, LowersThePeakOfALargeBatchForALittleOfASmallOne) {
  const std::string report = scratch_ / "report.json";
  const auto peak = [&](const std::string& batch) {
    ExpectDone({ToolPath("actc"), GoldenFolder() + "/swin/model.onnx", "-O", "L4", "--batch=" + batch,
                "--report-json=" + report});
    llvm::Expected<llvm::json::Value> json = llvm::json::parse(ReadFile(report));
    EXPECT_TRUE(static_cast<bool>(json));
    return json ? json->getAsObject()->getInteger("peak_bytes").value_or(-1) : -1;
  };
  const int64_t small = peak("16"), large = peak("256");
  EXPECT_GT(small, 0);
  EXPECT_LT(large, small * 14 / 5);
}

// The plan that is written has the state and the type that were chosen.
TEST_F(Actc, TakesSmallerStateAndTypesWhereItMay) {
  const std::string model = GoldenFolder() + "/vit/model.onnx";
  const auto with = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {ToolPath("actc"), model, "--batch=16", "--optimizer=adamw"};
    command.insert(command.end(), flags.begin(), flags.end());
    return RunTool(command);
  };
  const auto peak = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> all = flags;
    const std::string report = scratch_ / "report.json";
    all.push_back("--report-json=" + report);
    EXPECT_EQ(with(all).exit_code, 0);
    llvm::Expected<llvm::json::Value> json = llvm::json::parse(ReadFile(report));
    EXPECT_TRUE(static_cast<bool>(json));
    return json ? json->getAsObject()->getInteger("arena_bytes").value_or(-1) : -1;
  };
  const int64_t small = peak({"--optimizer-state=8bit"});
  ASSERT_LT(small, peak({}));
  const std::string limit = "--memory-limit=" + std::to_string(small);
  EXPECT_EQ(with({limit}).out.find("8bit"), std::string::npos);
  const Outcome chosen = with({limit, "--optimizer-state=auto", "--compute=auto"});
  EXPECT_NE(chosen.out.find("memory limit: L0 with --optimizer-state=8bit takes"), std::string::npos)
      << chosen.out << chosen.err;
  EXPECT_EQ(peak({limit, "--optimizer-state=auto", "--compute=auto"}), small);
}

TEST_F(Actc, SaysWhatMayBeRoundedAndRefusesOtherArithmetic) {
  const auto args = [](const std::string& level, const std::vector<std::string>& flags) {
    std::vector<std::string> command = {ToolPath("actc"), GoldenFolder() + "/resnet_basic/model.onnx", "-O",
                                        level};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  };
  const char* words = "multiply gradients by decoded numbers, rounded to bfloat16";
  EXPECT_NE(RunTool(args("L3", {})).out.find(words), std::string::npos);
  EXPECT_EQ(RunTool(args("L3", {"--fpmath=f32"})).out.find(words), std::string::npos);
  EXPECT_EQ(RunTool(args("L0", {})).out.find(words), std::string::npos);
  ExpectDone(args("L0", {"--fpmath=f32"}));
  ExpectWrongUsage(args("L3", {"--fpmath=fp8"}), {"--fpmath: expected bf16 or f32, found 'fp8'"});
  for (const char* level : {"L0", "actnn-L3"})
    ExpectWrongUsage(args(level, {"--fpmath=bf16"}), {"--fpmath", "multiplies in float32"});
}

TEST_F(Actc, ComputesInBFloat16AndRefusesOtherTypes) {
  const auto args = [](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {ToolPath("actc"), GoldenFolder() + "/resnet_basic/model.onnx", "-O",
                                        "L0"};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  };
  const std::string report = RunTool(args({"--compute=bf16", "--explain"})).out;
  EXPECT_NE(report.find("level L0, bfloat16"), std::string::npos) << report;
  EXPECT_NE(report.find("bf16"), std::string::npos) << report;
  EXPECT_EQ(RunTool(args({"--compute=f32", "--explain"})).out.find("bf16"), std::string::npos);
  ExpectWrongUsage(args({"--compute=fp8"}), {"--compute: expected f32, bf16 or auto, found 'fp8'"});
  ExpectWrongUsage(args({"--compute=bf16", "--fpmath=bf16"}), {"--fpmath", "no meaning with --compute=bf16"});
}

TEST_F(Actc, NamesAFileThatIsNotThere) {
  ExpectRefused(Command(scratch_ / "absent.onnx"), {"absent.onnx", "No such file"});
}

TEST_F(Actc, NamesAnOutputThatItCannotWrite) {
  const std::string model = Write(Classifier().Bytes());
  ExpectRefused({ToolPath("actc"), model, "-O", "L0", "-o", scratch_ / "absent/plan.bin"},
                {"absent/plan.bin"});
  ExpectRefused(Command(model, {"--report-json=" + (scratch_ / "absent/report.json")}),
                {"absent/report.json"});
}

TEST_F(Actc, NamesAModelThatWouldBeLost) {
  const std::string model = Write(Classifier().Bytes()), before = ReadFile(model);
  ExpectRefused({ToolPath("actc"), model, "-O", "L0", "-o", model}, {"-o", "is the file that is read"});
  ExpectRefused(Command(model, {"--report-json=" + plan()}), {"--report-json", "is written by -o, too"});
  EXPECT_TRUE(before == ReadFile(model)) << "the model was touched";
}

TEST_F(Actc, KeepsTheOldPlanWhereTheDiskIsFull) {
  const std::string model = GoldenFolder() + "/lenet/model.onnx";
  ExpectDone(Command(model));
  const std::string before = ReadFile(plan());
  ExpectRefused({ToolPath("actc"), model, "-O", "L0", "-o", plan()}, {"plan.bin"},
                {.seconds = 60, .largest_file_bytes = 4096});
  EXPECT_TRUE(before == ReadFile(plan())) << "the old plan was touched";
  EXPECT_EQ(List(scratch_.path()), std::vector<std::string>{"plan.bin"});
}

TEST_F(Actc, ReportGoesToStandardOutput) {
  const std::string model = Write(Classifier().Bytes());
  EXPECT_NE(ExpectDone(Command(model)).find("peak"), std::string::npos);
  EXPECT_EQ(ExpectDone(Command(model, {"--report=none"})), "");
  EXPECT_NE(ExpectDone(Command(model, {"--explain"})).size(), 0u);
}

TEST_F(Actc, SameInputGivesTheSamePlan) {
  const std::string model = GoldenFolder() + "/resnet_basic/model.onnx";
  ExpectDone(Command(model));
  const std::string first = ReadFile(plan());
  ExpectDone(Command(model));
  EXPECT_TRUE(first == ReadFile(plan()));
}

}  // namespace
}  // namespace act::e2e
