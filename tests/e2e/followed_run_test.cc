// Runs that one can follow: --log, --report-html, --patience, gradient norms.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

using Args = std::vector<std::string>;
using llvm::json::Object;

Args Joined(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Every line of a log. Fails if one is no JSON object, or if the last one is not whole.
std::vector<Object> ReadLog(const std::string& path) {
  const std::string text = ReadFile(path);
  EXPECT_TRUE(text.ends_with("\n")) << path;
  std::vector<Object> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    auto value = llvm::json::parse(text.substr(begin, end - begin));
    if (!value) {
      ADD_FAILURE() << llvm::toString(value.takeError()) << ": " << text.substr(begin, end - begin);
    } else if (const Object* object = value->getAsObject()) {
      lines.push_back(*object);
    }
    begin = end + 1;
  }
  return lines;
}

std::string KindOf(const Object& line) { return line.getString("kind").value_or("").str(); }

std::vector<Object> OfKind(const std::vector<Object>& lines, const std::string& kind) {
  std::vector<Object> found;
  for (const Object& line : lines)
    if (KindOf(line) == kind) found.push_back(line);
  return found;
}

// A small ResNet on digits: 23 steps an epoch.
class FollowedRun : public testing::Test {
 protected:
  void Compile(const Args& flags = {}) {
    ExpectDone(Joined({ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-O", "L3", "--batch=64",
                       "--report=none", "-o", scratch_ / "plan"},
                      flags));
  }
  Args Command(const Args& flags) const {
    return Joined({ToolPath("actrun"), scratch_ / "plan", "--threads=1", "--lr=0.05",
                   "--data=image=" + kDigits + "train_image.npy,label=" + kDigits + "train_label.npy"},
                  flags);
  }
  Args Evaluated(const Args& flags) const {
    return Command(Joined(
        {"--eval-data=image=" + kDigits + "test_image.npy,label=" + kDigits + "test_label.npy"}, flags));
  }
  std::string Flag(const std::string& flag, const std::string& file) const {
    return "--" + flag + "=" + (scratch_ / file);
  }

  const std::string kDigits = ModelsFolder() + "/data/digits/";
  ScratchFolder scratch_;
};

TEST_F(FollowedRun, HoldsTheRunAsTheReportDoes) {
  Compile();
  ExpectDone(Evaluated({"--epochs=2", "--seed=18446744073709551615", "--warmup=10", Flag("log", "log"),
                        Flag("report-json", "json"), Flag("report-html", "html")}));
  const std::vector<Object> lines = ReadLog(scratch_ / "log");
  const Object report = Take(ReadJson(scratch_ / "json"));
  const Object& header = lines.front();
  EXPECT_EQ(KindOf(header), "header");
  EXPECT_EQ(header.get("seed")->getAsUINT64(), 18446744073709551615u);
  for (const char* key :
       {"model", "level", "batch", "device", "threads", "planned_peak_bytes", "optimizer"}) {
    ASSERT_NE(header.get(key), nullptr) << key;
    EXPECT_EQ(*header.get(key), *report.get(key)) << key;
  }
  EXPECT_EQ(header.getString("version"), llvm::StringRef("0.1.0"));
  const std::vector<Object> steps = OfKind(lines, "step");
  const llvm::json::Array& losses = *report.getArray("losses");
  ASSERT_EQ(steps.size(), 46u);
  ASSERT_EQ(losses.size(), 46u);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].getInteger("step"), static_cast<int64_t>(i));
    EXPECT_EQ(*steps[i].get("loss"), losses[i]);
    EXPECT_EQ(*steps[i].get("peak_bytes"), *report.get("peak_bytes"));
    EXPECT_TRUE(steps[i].get("gradient_norm")->getAsNull());
    EXPECT_DOUBLE_EQ(*steps[i].getNumber("lr"), 0.05 * std::min(1.0, static_cast<double>(i) / 10));
  }
  EXPECT_EQ(OfKind(lines, "evaluation").size(), 2u);
  EXPECT_EQ(KindOf(lines.back()), "end");
  EXPECT_EQ(lines.back().getString("why"), llvm::StringRef("done"));
  const std::string html = ReadFile(scratch_ / "html");
  for (const char* part :
       {"digits_resnet.onnx", "Learning rate", "Accuracy", "done after step 46", "</html>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("http"), std::string::npos);
}

TEST_F(FollowedRun, AnInterruptedRunSaysSo) {
  Compile();
  const Args command = Command({"--steps=100000", Flag("log", "log"), Flag("report-html", "html")});
  // The first line of progress; the run ends some steps later.
  const Outcome outcome = RunTool(command, {.interrupt_at = "step 1/"});
  EXPECT_EQ(outcome.exit_code, 0) << Describe(command, outcome);
  const Object end = ReadLog(scratch_ / "log").back();
  EXPECT_EQ(end.getString("why"), llvm::StringRef("interrupted"));
  EXPECT_NE(ReadFile(scratch_ / "html").find("interrupted after step"), std::string::npos);
}

// As after a run that was killed in step 8, with a checkpoint of step 5.
TEST_F(FollowedRun, ARunGoesOnInItsLogAndSchedule) {
  Compile();
  const std::string schedule = "--lr-schedule=onecycle,1,12";
  ExpectDone(Command({"--steps=12", Flag("log", "whole"), schedule}));
  ExpectDone(Command({"--steps=5", Flag("save", "five"), schedule}));
  ExpectDone(Command({"--steps=8", Flag("log", "log"), schedule}));
  ExpectDone(Command({"--steps=7", Flag("load", "five"), Flag("log", "log"), schedule}));
  const std::vector<Object> lines = ReadLog(scratch_ / "log"), whole = ReadLog(scratch_ / "whole");
  const std::vector<Object> steps = OfKind(lines, "step"), expected = OfKind(whole, "step");
  ASSERT_EQ(steps.size(), 12u);
  for (size_t i = 0; i < steps.size(); ++i)
    for (const char* key : {"step", "epoch", "loss", "lr"})
      EXPECT_EQ(*steps[i].get(key), *expected[i].get(key)) << i << ": " << key;
  EXPECT_EQ(OfKind(lines, "header").size(), 2u);

  ExpectRefused(Command({"--steps=1", "--seed=9", Flag("load", "five"), Flag("log", "log")}),
                {"--log", "another run"});
}

// Lines that fit are whole; the run is as it would be without a log.
TEST_F(FollowedRun, AFullDiskDoesNotEndTheRun) {
  Compile();
  const Args command = Command({"--steps=20", Flag("log", "log")});
  const Outcome outcome = RunTool(command, {.largest_file_bytes = 2000});
  EXPECT_EQ(outcome.exit_code, 0) << Describe(command, outcome);
  const size_t first = outcome.err.find("actrun: warning: " + (scratch_ / "log"));
  ASSERT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("actrun: warning: " + (scratch_ / "log"), first + 1), std::string::npos)
      << "it is told once";
  const std::vector<Object> lines = ReadLog(scratch_ / "log");
  EXPECT_GT(OfKind(lines, "step").size(), 2u);
  EXPECT_LT(OfKind(lines, "step").size(), 20u);
  EXPECT_NE(outcome.out.find("steps                  20"), std::string::npos) << outcome.out;
}

TEST_F(FollowedRun, ALossThatIsNotFiniteIsInTheLogAndOnThePage) {
  Compile();
  const Args command = Command({"--steps=200", "--lr=1e30", Flag("log", "log"), Flag("report-html", "html")});
  const Outcome outcome = RunTool(command);
  EXPECT_EQ(outcome.exit_code, 1) << Describe(command, outcome);
  const std::vector<Object> lines = ReadLog(scratch_ / "log");
  const Object& end = lines.back();
  EXPECT_EQ(KindOf(end), "end");
  EXPECT_EQ(end.getString("why"), llvm::StringRef("error"));
  EXPECT_NE(end.getString("text")->str().find("the loss is"), std::string::npos);
  const std::vector<Object> not_finite = OfKind(lines, "not_finite");
  ASSERT_EQ(not_finite.size(), 1u);
  EXPECT_NE(outcome.err.find(not_finite[0].getString("text")->str()), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("'" + not_finite[0].getString("name")->str() + "'"), std::string::npos);
  const std::string html = ReadFile(scratch_ / "html");
  EXPECT_NE(html.find("the loss is"), std::string::npos);
  EXPECT_NE(html.find("Not finite:"), std::string::npos);
}

TEST_F(FollowedRun, AdaptationsAreLines) {
  Compile();
  ExpectDone(Command({"--steps=5", "--adapt-every=2", Flag("log", "log"), Flag("report-json", "json")}));
  const std::vector<Object> lines = OfKind(ReadLog(scratch_ / "log"), "adaptation");
  const Object report = Take(ReadJson(scratch_ / "json"));
  const llvm::json::Array& adaptations = *report.getArray("adaptations");
  ASSERT_EQ(lines.size(), 2u);
  ASSERT_EQ(adaptations.size(), 2u);
  for (size_t i = 0; i < lines.size(); ++i) {
    const Object& expected = *adaptations[i].getAsObject();
    for (const char* key : {"step", "measured", "moved", "sum_of_edges", "predicted", "bytes", "seconds"})
      EXPECT_EQ(*lines[i].get(key), *expected.get(key)) << key;
    EXPECT_EQ(*lines[i].get("planned_peak_bytes"), *expected.get("peak_bytes"));
  }
}

TEST_F(FollowedRun, PatienceEndsTheRunWithOneLine) {
  Compile();
  // With a rate of 0 the evaluations stay as they are, but for running statistics.
  const Args command = Evaluated({"--epochs=50", "--lr=1e-20", "--patience=2", "--patience-of=accuracy",
                                  Flag("log", "log"), Flag("save", "state")});
  const Outcome outcome = RunTool(command);
  EXPECT_EQ(outcome.exit_code, 0) << Describe(command, outcome);
  const Object end = ReadLog(scratch_ / "log").back();
  const std::string text = end.getString("text")->str();
  EXPECT_EQ(end.getString("why"), llvm::StringRef("stopped"));
  EXPECT_NE(text.find("2 evaluations in a row did not improve the accuracy"), std::string::npos) << text;
  EXPECT_NE(outcome.err.find("actrun: " + text + "\n"), std::string::npos) << outcome.err;
  EXPECT_TRUE(Exists(scratch_ / "state"));
  // What the checkpoint knows of evaluations ends the next run, too, or lets it go on.
  const std::vector<Object> before = OfKind(ReadLog(scratch_ / "log"), "step");
  ExpectDone(Joined(command, {Flag("load", "state")}));
  EXPECT_EQ(OfKind(ReadLog(scratch_ / "log"), "step").size(), before.size());
}

// PyTorch's gradients of the golden case, and on the card that a processor plays.
TEST_F(FollowedRun, GradientNormIsPyTorchs) {
  const std::string golden = GoldenFolder() + "/lenet/";
  double squares = 0;
  for (const auto& [name, tensor] : Take(ReadTensors(golden + "expected.safetensors")))
    if (name.starts_with("grad.")) squares += Norm(tensor) * Norm(tensor);
  ASSERT_GT(squares, 0);
  for (const std::string flag :
       {"--grad-norm", "--clip-norm=1e-3", "--grad-norm --device=fake", "--clip-norm=1e-3 --device=fake"}) {
    const std::string compile = flag.substr(0, flag.find(' '));
    const Args run = flag == compile ? Args{"--threads=1"} : Args{flag.substr(compile.size() + 1)};
    ExpectDone({ToolPath("actc"), golden + "model.onnx", "-O", "L0", compile, "-o", scratch_ / "plan",
                "--report=none"});
    ExpectDone(Joined({ToolPath("actrun"), scratch_ / "plan", "--inputs=" + golden + "inputs.safetensors",
                       "--batch=4", "--steps=3", "--lr=0", Flag("log", "log")},
                      run));
    const std::vector<Object> steps = OfKind(ReadLog(scratch_ / "log"), "step");
    ASSERT_EQ(steps.size(), 3u);
    // The gradients of both are float32 sums over a few hundred products, in other orders: 1e-6 of each.
    for (const Object& step : steps)
      EXPECT_NEAR(step.getNumber("gradient_norm").value_or(-1), std::sqrt(squares), 3e-6 * std::sqrt(squares))
          << flag;
  }
}

TEST_F(FollowedRun, WrongFlags) {
  Compile();
  ExpectWrongUsage(Command({"--patience=2"}), {"--patience", "--eval-data"});
  ExpectWrongUsage(Evaluated({"--patience=0"}), {"--patience: expected at least 1"});
  ExpectWrongUsage(Evaluated({"--patience-of=loss"}), {"--patience-of: needs --patience"});
  ExpectWrongUsage(Evaluated({"--patience=1", "--patience-of=speed"}), {"--patience-of", "'speed'"});
  ExpectWrongUsage(Command({"--warmup=x"}), {"--warmup=x", "number of steps"});
  ExpectWrongUsage(Command({"--warmup="}), {"--warmup"});
  ExpectWrongUsage(Command({"--log="}), {"--log"});
  ExpectWrongUsage(Command({"--report-html="}), {"--report-html"});
  ExpectWrongUsage(Command({"--warmup=5", "--lr-schedule=onecycle"}), {"--lr-schedule", "--warmup"});
  ExpectWrongUsage({ToolPath("actrun"), scratch_ / "plan", "--variance=2", Flag("log", "log")}, {"--log"});
  ExpectRefused(Command({"--log=/dev/null/log"}), {"--log", "/dev/null/log"});
  WriteFile(scratch_ / "text", "a text\n");
  ExpectRefused(Command({Flag("log", "text")}), {"--log", "is no log of actrun"});
  ExpectRefused(Command({"--report-html=/dev/null/page"}), {"/dev/null/page"});
  ExpectWrongUsage({ToolPath("actc"), "m.onnx", "--optimizer=none", "--grad-norm"},
                   {"--grad-norm", "needs an optimizer"});
}

}  // namespace
}  // namespace act::e2e
