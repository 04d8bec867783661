// actrun --tune: kernels chosen by time, and the file that keeps the choice.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <sstream>

#include "tests/e2e/refusal.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

bool Holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A network with convolutions of single pixels, whose weight gradients have two kernels on every processor:
// as products and as convolutions.
class Tune : public testing::Test {
 protected:
  void SetUp() override {
    setenv("ACT_TUNE_CACHE", folder().c_str(), 1);
    ExpectDone({ToolPath("actc"), GoldenFolder() + "/resnet_bottleneck/model.onnx", "-O", "L0", "-o", plan(),
                "--report=none"});
  }
  void TearDown() override {
    unsetenv("ACT_TUNE_CACHE");
    unsetenv("ACT_TUNE");
  }
  std::string plan() const { return scratch_ / "plan.bin"; }
  std::string folder() const { return scratch_ / "cache"; }
  // The file of choices, of which there is one.
  std::string File() const {
    const std::vector<std::string> names = List(folder());
    EXPECT_EQ(names.size(), 1u);
    return names.empty() ? "" : folder() + "/" + names[0];
  }
  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {ToolPath("actrun"), plan(),      "--batch=64",
                                     "--threads=1",      "--steps=1", "--lr=0.1"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Outcome Run(const std::vector<std::string>& more) const {
    const std::vector<std::string> args = Command(more);
    Outcome outcome = RunTool(args);
    EXPECT_EQ(outcome.exit_code, 0) << Describe(args, outcome);
    return outcome;
  }
  // Makes the kernel that was found slower the choice of the first site that has two. False if none has.
  bool ChooseTheOther() const {
    std::istringstream lines(ReadFile(File()));
    std::string text;
    bool changed = false;
    for (std::string line; std::getline(lines, line); text += line + "\n") {
      const size_t arrow = line.find(" -> "), times = line.find(" # "), comma = line.find(", ", times);
      if (changed || arrow == std::string::npos || comma == std::string::npos) continue;
      const auto name_at = [&](size_t at) { return line.substr(at, line.find(' ', at) - at); };
      const std::string chosen = name_at(arrow + 4), first = name_at(times + 3), second = name_at(comma + 2);
      line.replace(arrow + 4, chosen.size(), chosen == first ? second : first);
      changed = true;
    }
    WriteFile(File(), text);
    return changed;
  }

  const ScratchFolder scratch_;
};

TEST_F(Tune, TheSecondRunReadsWhatTheFirstTimed) {
  const Outcome first = Run({"--tune=on", "--save=" + (scratch_ / "first")});
  EXPECT_TRUE(Holds(first.err, " timed, ") && Holds(first.err, folder())) << first.err;
  EXPECT_TRUE(Holds(first.out, " timed, ")) << first.out;
  const std::string choices = ReadFile(File());
  EXPECT_TRUE(Holds(choices, "dnnl.pointwise_grad_weight")) << choices;
  const Outcome second = Run({"--tune=on", "--save=" + (scratch_ / "second")});
  EXPECT_FALSE(Holds(second.err, "timed")) << second.err;
  EXPECT_TRUE(Holds(second.out, " timed before, ")) << second.out;
  EXPECT_EQ(ReadFile(File()), choices);
  EXPECT_TRUE(ReadFile(scratch_ / "first") == ReadFile(scratch_ / "second"));
}

TEST_F(Tune, IsOnByDefaultAndTheVariableTurnsItOff) {
  setenv("ACT_TUNE", "", 1);
  EXPECT_TRUE(Holds(Run({}).err, " timed, "));
  setenv("ACT_TUNE", "off", 1);
  EXPECT_FALSE(Holds(Run({}).out, "kernels "));
  EXPECT_TRUE(Holds(Run({"--tune=on"}).out, " timed before, "));
}

// The error is the first line: nothing was timed before.
TEST_F(Tune, FilesThatAreNoneAreToldBeforeKernelsAreTimed) {
  const std::string absent = scratch_ / "absent.safetensors", wrong = scratch_ / "wrong.safetensors";
  WriteFile(wrong, "a text");
  for (const std::string flag : {"--data", "--inputs", "--load"}) {
    ExpectRefused(Command({"--tune=force", flag + "=" + absent}), {"absent.safetensors", "cannot open"});
    ExpectRefused(Command({"--tune=force", flag + "=" + wrong}), {"wrong.safetensors"});
  }
  EXPECT_FALSE(Exists(folder()));
}

TEST_F(Tune, OffLeavesNoFile) {
  const Outcome outcome = Run({"--tune=off"});
  EXPECT_FALSE(Exists(folder()));
  EXPECT_FALSE(Holds(outcome.out, "kernels ")) << outcome.out;
}

TEST_F(Tune, ForceTimesAgain) {
  Run({"--tune=on"});
  EXPECT_TRUE(Holds(Run({"--tune=force"}).err, " timed, "));
}

TEST_F(Tune, AnotherNumberOfThreadsHasAFileOfItsOwn) {
  Run({"--tune=on"});
  std::vector<std::string> two = Command({"--tune=on"});
  std::replace(two.begin(), two.end(), std::string("--threads=1"), std::string("--threads=2"));
  ExpectDone(two);
  EXPECT_EQ(List(folder()).size(), 2u);
}

TEST_F(Tune, DispatchShowsTheTimes) {
  EXPECT_TRUE(Holds(Run({"--tune=on", "--verbose=dispatch"}).err, "timed: "));
  EXPECT_TRUE(Holds(Run({"--tune=on", "--verbose=dispatch"}).err, "timed: "));
}

TEST_F(Tune, ReportsInJson) {
  Run({"--tune=on"});
  Run({"--tune=on", "--report-json=" + (scratch_ / "report.json")});
  const std::string report = ReadFile(scratch_ / "report.json");
  EXPECT_TRUE(Holds(report, "\"from_file\": ") && Holds(report, "\"timed\": 0")) << report;
}

TEST_F(Tune, WrongValuesAreWrongUsage) {
  ExpectWrongUsage(Command({"--tune=sometimes"}), {"--tune", "off, on or force", "'sometimes'"});
  setenv("ACT_TUNE", "never", 1);
  ExpectWrongUsage(Command({}), {"ACT_TUNE", "off, on or force", "'never'"});
}

// On the fake card, which has two engines for each convolution, of which the second is faster.
TEST_F(Tune, TimesACardsEnginesOnce) {
  setenv("ACT_FAKE_ENGINES", "2", 1);
  const std::vector<std::string> on_card = {"--tune=on", "--device=fake", "--batch=2"};
  const Outcome first = Run(on_card);
  EXPECT_TRUE(Holds(first.err, "timing engines of convolutions, once on this card")) << first.err;
  EXPECT_TRUE(Holds(first.err, "differ from the library's order; " + folder())) << first.err;
  EXPECT_TRUE(Holds(ReadFile(File()), "engine_1")) << ReadFile(File());
  const Outcome second = Run(on_card);
  EXPECT_FALSE(Holds(second.err, "timing engines") || Holds(second.err, "timed in")) << second.err;
  unsetenv("ACT_FAKE_ENGINES");
}

TEST_F(Tune, GoesOnWithADamagedFile) {
  Run({"--tune=on"});
  const std::string whole = ReadFile(File());
  const std::string cut = whole.substr(0, whole.size() - 30);
  for (const std::string& damaged : {cut, whole + "garbage\n",
                                     std::string("\x7f"
                                                 "ELF"),
                                     std::string()}) {
    WriteFile(File(), damaged);
    const Outcome outcome = Run({"--tune=on"});
    const size_t warning = outcome.err.find("actrun: warning: " + File());
    EXPECT_NE(warning, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("warning", warning + 20), std::string::npos) << outcome.err;
    if (damaged == whole + "garbage\n") continue;  // nothing is timed, so nothing is written
    EXPECT_FALSE(Holds(Run({"--tune=on"}).err, "warning"));
  }
}

TEST_F(Tune, GoesOnWithoutAFolder) {
  setenv("ACT_TUNE_CACHE", "/dev/null/folder", 1);
  const Outcome outcome = Run({"--tune=on"});
  EXPECT_TRUE(Holds(outcome.err, "actrun: warning: the choice of kernels is not kept")) << outcome.err;
}

TEST_F(Tune, ResumingWithOtherKernelsWarns) {
  const std::string start = scratch_ / "start";
  Run({"--tune=on", "--save=" + start});
  EXPECT_FALSE(Holds(Run({"--tune=on", "--load=" + start}).err, "warning"));
  ASSERT_TRUE(ChooseTheOther());
  const Outcome outcome = Run({"--tune=on", "--load=" + start});
  EXPECT_TRUE(Holds(outcome.err, "actrun: warning: resumed with other kernels than " + start)) << outcome.err;
  // Of another batch, other bits are expected.
  std::vector<std::string> smaller = Command({"--tune=on", "--load=" + start});
  std::replace(smaller.begin(), smaller.end(), std::string("--batch=64"), std::string("--batch=32"));
  const Outcome other = RunTool(smaller);
  EXPECT_EQ(other.exit_code, 0) << Describe(smaller, other);
  EXPECT_FALSE(Holds(other.err, "warning")) << other.err;
}

}  // namespace
}  // namespace act::e2e
