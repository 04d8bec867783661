// What actrun promises its caller: exit codes, messages that name the place, and checkpoints that
// are either complete or absent.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "tests/e2e/golden_case.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

// lenet with its batch of 4, compiled once for each test.
class Actrun : public testing::Test {
 protected:
  void SetUp() override {
    ExpectDone({ToolPath("actc"), Golden("model.onnx"), "-O", "L3", "-o", plan(), "--report=none"});
    auto inputs = ReadTensors(Golden("inputs.safetensors"));
    ASSERT_TRUE(static_cast<bool>(inputs)) << llvm::toString(inputs.takeError());
    inputs_ = std::move(*inputs);
  }

  static std::string Golden(const std::string& file) { return GoldenFolder() + "/lenet/" + file; }
  std::string plan() const { return scratch_ / "plan.bin"; }
  std::vector<std::string> Command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {ToolPath("actrun"), plan(), "--batch=4", "--threads=1", "--steps=1"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  // Runs on the current inputs_.
  std::vector<std::string> CommandOnInputs() const {
    WriteTensors(scratch_ / "inputs.safetensors", inputs_);
    return Command({"--inputs=" + (scratch_ / "inputs.safetensors")});
  }

  ScratchFolder scratch_;
  Tensors inputs_;
};

TEST_F(Actrun, RunsOnRandomInputsAndOnGivenOnes) {
  ExpectDone(Command());
  EXPECT_NE(ExpectDone(CommandOnInputs()).find("peak"), std::string::npos);
}

TEST_F(Actrun, HelpAndVersionGoToStandardOutput) {
  for (const char* help : {"--help", "-h"})
    EXPECT_NE(ExpectDone({ToolPath("actrun"), help}).find("--threads"), std::string::npos);
  EXPECT_NE(ExpectDone({ToolPath("actrun"), "--version"}).find("0.1"), std::string::npos);
}

TEST_F(Actrun, WrongUsageIsExit2) {
  ExpectWrongUsage({ToolPath("actrun")}, {});
  ExpectWrongUsage(Command({"--no-such-flag"}), {"--no-such-flag"});
  ExpectWrongUsage({ToolPath("actrun"), plan(), "--batch=0"}, {"batch"});
  ExpectWrongUsage({ToolPath("actrun"), plan(), "--batch=-1"}, {"batch"});
  ExpectWrongUsage({ToolPath("actrun"), plan(), "--threads=0"}, {"threads"});
}

TEST_F(Actrun, NamesWhatAFileIsInsteadOfAPlan) {
  ExpectRefused({ToolPath("actrun"), Golden("model.onnx"), "--batch=4"},
                {"model.onnx", "an ONNX model, not a plan"});
  ExpectRefused({ToolPath("actrun"), Golden("inputs.safetensors"), "--batch=4"},
                {"inputs.safetensors", "not a plan"});
  ExpectRefused({ToolPath("actrun"), scratch_ / "absent.bin"}, {"absent.bin"});
  WriteFile(scratch_ / "empty.bin", "");
  ExpectRefused({ToolPath("actrun"), scratch_ / "empty.bin"}, {"empty.bin"});
}

TEST_F(Actrun, RefusesAPlanOfAnotherVersion) {
  std::string bytes = ReadFile(plan());
  bytes.at(8) =
      // docs/plan_format.md: the version follows eight bytes of magic.
      static_cast<char>(bytes[8] + 1);
  WriteFile(plan(), bytes);
  ExpectRefused(Command(), {"plan.bin", "version"});
}

TEST_F(Actrun, RefusesAPlanWithAnyByteChanged) {
  const std::string bytes = ReadFile(plan());
  constexpr size_t kPlaces = 40;
  for (size_t i = 0; i < kPlaces; ++i) {
    std::string damaged = bytes;
    const size_t at = i * (bytes.size() - 1) / (kPlaces - 1);
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    WriteFile(plan(), damaged);
    SCOPED_TRACE("byte " + std::to_string(at) + " of " + std::to_string(bytes.size()));
    ExpectRefused(Command(), {"plan.bin"});
  }
}

TEST_F(Actrun, RefusesATruncatedPlan) {
  const std::string bytes = ReadFile(plan());
  for (const size_t size : {size_t{20}, size_t{70}, bytes.size() / 2, bytes.size() - 1}) {
    WriteFile(plan(), bytes.substr(0, size));
    ExpectRefused(Command(), {"plan.bin"});
  }
}

TEST_F(Actrun, NamesALabelThatIsNoClass) {
  for (const double label : {10.0, -1.0, 1e12}) {
    inputs_["label"].data[2] = label;
    ExpectRefused(CommandOnInputs(), {"label"});
  }
}

TEST_F(Actrun, NamesAnInputOfTheWrongShapeTypeOrName) {
  const Tensors good = inputs_;
  inputs_["image"].shape = {4, 1, 8, 32};
  ExpectRefused(CommandOnInputs(), {"image", "16"});
  inputs_ = good;
  inputs_["label"].dtype = "F32";
  ExpectRefused(CommandOnInputs(), {"label"});
  inputs_ = good;
  inputs_.erase("label");
  ExpectRefused(CommandOnInputs(), {"label"});
  inputs_ = good;
  ExpectRefused({ToolPath("actrun"), plan(), "--batch=5", "--inputs=" + Golden("inputs.safetensors")},
                {"batch"});
}

TEST_F(Actrun, WarnsOfNotANumberInTheData) {
  inputs_["image"].data[3] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::string> command = CommandOnInputs();
  const Outcome outcome = RunTool(command);
  EXPECT_NE(outcome.err.find("image"), std::string::npos) << Describe(command, outcome);
  EXPECT_NE(outcome.err.find("NaN"), std::string::npos) << Describe(command, outcome);
}

TEST_F(Actrun, NamesADataSetFileThatIsNotOne) {
  const std::string digits = ModelsFolder() + "/data/digits/";
  ExpectRefused(
      Command({"--data=image=" + (scratch_ / "absent.npy") + ",label=" + digits + "train_label.npy"}),
      {"absent.npy"});
  ExpectRefused(Command({"--data=image=" + plan() + ",label=" + digits + "train_label.npy"}), {"plan.bin"});
  ExpectRefused(Command({"--data=label=" + digits + "train_label.npy"}), {"image"});
  ExpectRefused(Command({"--data=image=" + digits + "train_image.npy,label=" + digits + "train_label.npy"}),
                {"image"});  // images of 8 x 8, where lenet takes 16 x 16
}

// The error comes before any allocation, with the batch that would fit.
TEST_F(Actrun, RefusesAPeakAboveTheMachinesMemory) {
  const std::string error = ExpectRefused({ToolPath("actrun"), plan(), "--batch=4000000000"}, {"memory"},
                                          {.seconds = 60, .largest_file_bytes = 0});
  EXPECT_NE(error.find("batch"), std::string::npos) << error;
}

TEST_F(Actrun, NamesAFileThatItCannotWrite) {
  ExpectRefused(Command({"--save=" + (scratch_ / "absent/end.safetensors")}), {"absent/end.safetensors"});
  ExpectRefused(Command({"--report-json=" + (scratch_ / "absent/run.json")}), {"absent/run.json"});
  ExpectRefused(Command({"--dump-step=" + (scratch_ / "absent/step.safetensors")}),
                {"absent/step.safetensors"});
}

TEST_F(Actrun, NamesAFileThatWouldBeLost) {
  const std::string before = ReadFile(plan()), twice = scratch_ / "twice";
  ExpectRefused(Command({"--export-onnx=" + plan()}), {"--export-onnx", "plan.bin is the file that is read"});
  ExpectRefused(Command({"--save=" + (scratch_ / "./plan.bin")}), {"--save", "is the file that is read"});
  ExpectRefused(Command({"--save=" + twice, "--export-onnx=" + twice}),
                {"--export-onnx", "written by --save, too"});
  ExpectRefused(Command({"--log=" + plan()}), {"--log", "is the file that is read"});
  EXPECT_TRUE(before == ReadFile(plan())) << "the plan was touched";
  ExpectDone(Command({"--save=/dev/null", "--report-json=/dev/null", "--log=/dev/null"}));
  ExpectRefused(Command({"--report-json=" + twice, "--log=" + twice}),
                {"--log", "written by --report-json, too"});
  EXPECT_EQ(List(scratch_.path()), (std::vector<std::string>{"plan.bin"}));
}

// Whatever names a file that is read, and whatever would replace it.
TEST_F(Actrun, NamesDataThatWouldBeLost) {
  const std::string inputs = scratch_ / "inputs.safetensors", start = scratch_ / "start.safetensors";
  WriteTensors(inputs, inputs_);
  const std::string bytes = ReadFile(inputs);
  WriteFile(scratch_ / "more.safetensors", bytes);
  ExpectDone(Command({"--save=" + start}));
  const std::vector<std::string> before = List(scratch_.path());
  const auto expect = [&](const std::vector<std::string>& flags, const std::string& output,
                          const std::string& reader) {
    for (const std::string flag :
         {"--save", "--export-onnx", "--dump-step", "--report-json", "--report-html", "--log"}) {
      std::vector<std::string> args = flags;
      args.push_back(flag + "=" + output);
      ExpectRefused(Command(args), {flag + ": " + output, "the file that " + reader + " reads"});
    }
  };
  expect({"--inputs=" + inputs}, inputs, "--inputs");
  expect({"--data=" + inputs}, scratch_ / "./inputs.safetensors", "--data");
  expect({"--data=" + (scratch_ / "m*.safetensors"), "--eval-data=image=" + inputs + ",label=" + inputs},
         inputs, "--eval-data");
  expect({"--data=" + (scratch_ / "[im]*.safetensors")}, scratch_ / "more.safetensors", "--data");
  ExpectRefused(Command({"--load=" + start, "--report-json=" + start}), {"--report-json", "--load reads"});
  EXPECT_TRUE(bytes == ReadFile(inputs));
  EXPECT_EQ(List(scratch_.path()), before);
  // A run may go on in the file from which it began.
  ExpectDone(Command({"--load=" + start, "--save=" + start}));
}

TEST_F(Actrun, KeepsTheOldCheckpointWhereTheDiskIsFull) {
  const std::string checkpoint = scratch_ / "end.safetensors";
  ExpectDone(Command({"--save=" + checkpoint}));
  const std::string before = ReadFile(checkpoint);
  ASSERT_GT(before.size(), 4096u);
  ExpectRefused(Command({"--save=" + checkpoint, "--seed=9"}), {"end.safetensors"},
                {.seconds = 60, .largest_file_bytes = 4096});
  EXPECT_TRUE(before == ReadFile(checkpoint)) << "the old checkpoint was touched";
  EXPECT_EQ(List(scratch_.path()), (std::vector<std::string>{"end.safetensors", "plan.bin"}));
}

TEST_F(Actrun, RefusesACheckpointOfAnotherModel) {
  ExpectRefused(Command({"--load=" + Golden("inputs.safetensors")}), {"inputs.safetensors"});
  ExpectRefused(Command({"--load=" + Golden("model.onnx")}), {"model.onnx"});
}

// Two steps and then two more give the same bits as four steps: optimizer state, step count and
// random streams are in the checkpoint.
TEST_F(Actrun, ResumesWhereItStopped) {
  const std::string middle = scratch_ / "middle.safetensors", resumed = scratch_ / "resumed.safetensors",
                    straight = scratch_ / "straight.safetensors";
  const std::vector<std::string> command = {
      ToolPath("actrun"), plan(),           "--batch=4", "--threads=1",
      "--lr=0.05",        "--momentum=0.9", "--seed=7",  "--inputs=" + Golden("inputs.safetensors")};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = command;
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  ExpectDone(with({"--steps=4", "--save=" + straight}));
  ExpectDone(with({"--steps=2", "--save=" + middle}));
  ExpectDone(with({"--steps=2", "--load=" + middle, "--save=" + resumed}));
  EXPECT_TRUE(ReadFile(straight) == ReadFile(resumed));
  EXPECT_FALSE(ReadFile(straight) == ReadFile(middle));
}

// The step after --load, in another process, has the same gradients as a run that went on. At L3
// and L4 gradients are made from codes, so the codes are the same too. Without momentum, a velocity
// is the last gradient.
TEST_F(Actrun, TheStepBehindALoadHasTheGradientsOfTheUninterruptedRun) {
  const std::string digits = ModelsFolder() + "/data/digits/";
  for (const std::string level : {"L3", "L4"}) {
    const std::string own = scratch_ / level;
    ExpectDone({ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-O", level, "-o", own,
                "--batch=32", "--report=none"});
    const auto run = [&](const std::vector<std::string>& more) {
      std::vector<std::string> args = {
          ToolPath("actrun"),
          own,
          "--threads=1",
          "--lr=0.05",
          "--momentum=0",
          "--data=image=" + digits + "train_image.npy,label=" + digits + "train_label.npy"};
      args.insert(args.end(), more.begin(), more.end());
      ExpectDone(args);
    };
    const std::string straight = scratch_ / "straight", half = scratch_ / "half", step = scratch_ / "step";
    run({"--steps=6", "--save=" + straight});
    run({"--steps=5", "--save=" + half});
    run({"--steps=1", "--load=" + half, "--dump-step=" + step});
    auto all = ReadTensors(straight);
    auto dumped = ReadTensors(step);
    ASSERT_TRUE(all && dumped);
    int compared = 0;
    for (const auto& [name, gradient] : *dumped) {
      if (!name.starts_with("grad.")) continue;
      const auto velocity = all->find("optimizer." + name.substr(5) + ".velocity");
      ASSERT_NE(velocity, all->end()) << name;
      EXPECT_EQ(gradient.data, velocity->second.data) << level << " " << name;
      ++compared;
    }
    EXPECT_GE(compared, 20);
  }
}

// Activations that no code can hold are reported once, with the name, before the loss
// that ends the run.
TEST_F(Actrun, NamesTheSavedActivationThatIsNotFinite) {
  inputs_["image"].data[3] = std::numeric_limits<double>::infinity();
  const std::vector<std::string> command = CommandOnInputs();
  const Outcome outcome = RunTool(command);
  const size_t at = outcome.err.find("step 0: saved activation '");
  EXPECT_NE(at, std::string::npos) << Describe(command, outcome);
  EXPECT_EQ(outcome.err.find("saved activation", at + 30), std::string::npos) << Describe(command, outcome);
}

TEST_F(Actrun, WritesTheTimesOfNodesWhereTheyAreAskedFor) {
  const std::string file = scratch_ / "run.json";
  ExpectDone(Command({"--report-json=" + file}));
  EXPECT_TRUE(Take(ReadJson(file)).get("profile")->getAsNull());
  ExpectDone(Command({"--report-json=" + file, "--profile"}));
  const llvm::json::Object report = Take(ReadJson(file));
  const llvm::json::Array* profile = report.getArray("profile");
  ASSERT_NE(profile, nullptr);
  double longest = std::numeric_limits<double>::infinity(), convolutions = 0;
  for (const llvm::json::Value& row : *profile) {
    const llvm::json::Object& node = *row.getAsObject();
    EXPECT_LE(*node.getNumber("seconds"), longest);
    longest = *node.getNumber("seconds");
    EXPECT_GT(*node.getNumber("bytes"), 0);
    EXPECT_FALSE(node.getString("kernel")->empty());
    convolutions += node.getString("node")->starts_with("Conv ");
  }
  EXPECT_EQ(convolutions, 2);
}

// A report is valid JSON whatever bytes a file's name has. (Where assertions are on, LLVM ends the process otherwise.)
// Until its exec, a process has the memory of the one that started it.
TEST_F(Actrun, TheResidentPeakIsThatOfTheRunAlone) {
  const auto peak = [&] {
    ExpectDone(Command({"--report-json=" + (scratch_ / "run.json")}));
    return *Take(ReadJson(scratch_ / "run.json")).getInteger("resident_peak_bytes");
  };
  const int64_t before = peak();
  const std::vector<char> memory(size_t{1} << 29, 1);  // pages that this process has
  EXPECT_LT(peak(), before + static_cast<int64_t>(memory.size()) / 2);
}

TEST_F(Actrun, NamesInAReportAreUtf8) {
  const std::string model = scratch_ / "net\xff.onnx", report = scratch_ / "run.json";
  std::filesystem::copy_file(Golden("model.onnx"), model);
  ExpectDone({ToolPath("actc"), model, "-o", plan(), "--report=none"});
  ExpectDone(Command({"--report-json=" + report}));
  EXPECT_TRUE(Take(ReadJson(report)).getString("model")->starts_with("net"));
}

TEST_F(Actrun, SeedDecidesTheNoiseAndNothingElseDoes) {
  const std::vector<std::string> files = {scratch_ / "a.safetensors", scratch_ / "b.safetensors",
                                          scratch_ / "c.safetensors"};
  const std::vector<std::string> seeds = {"1", "1", "2"};
  for (size_t i = 0; i < files.size(); ++i) {
    std::vector<std::string> args = CommandOnInputs();
    args.insert(args.end(), {"--seed=" + seeds[i], "--dump-step=" + files[i]});
    ExpectDone(args);
  }
  EXPECT_TRUE(ReadFile(files[0]) == ReadFile(files[1]));
  EXPECT_FALSE(ReadFile(files[0]) == ReadFile(files[2]));
}

}  // namespace
}  // namespace act::e2e
