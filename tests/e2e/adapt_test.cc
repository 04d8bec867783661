// actrun --adapt-every: levels change while a network trains, in the memory that was promised.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

class Adapt : public testing::Test {
 protected:
  std::string CompileAt(const std::string& level) {
    const std::string plan = scratch_ / level;
    ExpectDone({ToolPath("actc"), ModelsFolder() + "/digits_resnet.onnx", "-O", level, "-o", plan,
                "--batch=32", "--report-json=" + (scratch_ / (level + ".json"))});
    return plan;
  }
  std::vector<std::string> Command(const std::string& plan, const std::vector<std::string>& more) {
    const std::string digits = ModelsFolder() + "/data/digits/";
    std::vector<std::string> args = {
        ToolPath("actrun"), plan, "--threads=1",
        "--data=image=" + digits + "train_image.npy,label=" + digits + "train_label.npy"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  double Variance(const std::string& plan, const std::string& checkpoint) {
    const std::string report = scratch_ / "variance.json";
    ExpectDone(Command(
        plan, {"--load=" + checkpoint, "--variance=6", "--variance-edges=", "--report-json=" + report}));
    return Take(ReadJson(report)).getNumber("variance").value_or(NAN);
  }

  ScratchFolder scratch_;
};

TEST_F(Adapt, MovesLevelsWithinThePromisedPeak) {
  const std::string plan = CompileAt("L2"), saved = scratch_ / "saved", report = scratch_ / "report";
  ExpectDone(Command(plan, {"--steps=41", "--lr=0.05", "--adapt-every=20", "--save=" + saved,
                            "--check-memory", "--report-json=" + report}));
  const auto promised = Take(ReadJson(scratch_ / "L2.json")).getInteger("peak_bytes");
  const llvm::json::Object run = Take(ReadJson(report));
  EXPECT_EQ(run.getInteger("peak_bytes"), promised);
  EXPECT_EQ(run.getInteger("planned_peak_bytes"), promised);
  const llvm::json::Array& all = *run.getArray("adaptations");
  ASSERT_EQ(all.size(), 2u) << "before the steps 20 and 40";
  const llvm::json::Object& first = *all[0].getAsObject();
  EXPECT_EQ(first.getInteger("step"), 20);
  EXPECT_GE(first.getInteger("moved").value_or(0), 5);
  EXPECT_LT(*first.getNumber("predicted"), .8 * *first.getNumber("sum_of_edges"));
  for (const llvm::json::Value& adaptation : all)
    EXPECT_LE(*adaptation.getAsObject()->getInteger("peak_bytes"), *promised);

  // The same parameters with the plan's own levels give v without the changes, on
  // other mini-batches.
  Tensors tensors = Take(ReadTensors(saved));
  ASSERT_EQ(tensors.count("levels"), 1u);
  for (const char* name : {"levels", "levels_plan", "levels_shares"}) tensors.erase(name);
  WriteTensors(scratch_ / "own", tensors);
  EXPECT_LT(Variance(plan, saved), .8 * Variance(plan, scratch_ / "own"));
}

// The checkpoint holds the levels and the data by which they were chosen. A run may end right
// before an adaptation.
TEST_F(Adapt, ResumesBitIdentically) {
  for (const std::string level : {"L2", "gact-L2.2"}) {
    const std::string plan = CompileAt(level), straight = scratch_ / "straight";
    ExpectDone(Command(plan, {"--steps=34", "--adapt-every=10", "--save=" + straight}));
    for (const int middle : {10, 17, 20}) {
      const std::string half = scratch_ / "half", resumed = scratch_ / "resumed";
      ExpectDone(Command(plan, {"--steps=" + std::to_string(middle), "--adapt-every=10", "--save=" + half}));
      ExpectDone(Command(plan, {"--steps=" + std::to_string(34 - middle), "--adapt-every=10",
                                "--load=" + half, "--save=" + resumed}));
      EXPECT_TRUE(ReadFile(straight) == ReadFile(resumed)) << level << " resumed at " << middle;
    }
    ExpectDone(Command(plan, {"--steps=34", "--save=" + (scratch_ / "fixed")}));
    EXPECT_FALSE(ReadFile(straight) == ReadFile(scratch_ / "fixed")) << "no level moved";
  }
}

// Another level's plan takes over the parameters but not the levels.
TEST_F(Adapt, TheLevelsOfAnotherPlanAreLeft) {
  const std::string saved = scratch_ / "saved";
  ExpectDone(Command(CompileAt("L2"), {"--steps=11", "--adapt-every=10", "--save=" + saved}));
  const std::vector<std::string> command = Command(CompileAt("L3"), {"--steps=1", "--load=" + saved});
  const Outcome outcome = RunTool(command);
  EXPECT_EQ(outcome.exit_code, 0) << Describe(command, outcome);
  EXPECT_NE(outcome.err.find("another plan"), std::string::npos) << Describe(command, outcome);
}

TEST_F(Adapt, RefusesWhatItCannotDo) {
  const std::string plan = CompileAt("L2");
  ExpectWrongUsage({ToolPath("actrun"), plan, "--adapt-every=5"}, {"--data"});
  ExpectWrongUsage(Command(plan, {"--adapt-every=0"}), {"--adapt-every"});
  ExpectWrongUsage(Command(plan, {"--adapt-every=5", "--variance=2"}), {"--adapt-every"});
  ExpectRefused(Command(CompileAt("L0"), {"--steps=1", "--adapt-every=5"}), {"nothing in levels"});
}

}  // namespace
}  // namespace act::e2e
