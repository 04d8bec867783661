// The log of a run: what its lines hold, and what is left of it when another run goes on.
#include "runtime/train/run_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "runtime/data/dataset.h"
#include "runtime/data/npy.h"
#include "runtime/train/early_stop.h"
#include "runtime/train/run_log_file.h"
#include "runtime/train/trainer.h"
#include "tests/take.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/test_device.h"
#include "tests/unit/toy_plan.h"

namespace act {
namespace {

using llvm::json::Object;

// A run of the toy model over 11 samples in batches of 3: 4 steps an epoch.
class RunLogTest : public ::testing::Test {
 protected:
  RunLogTest() {
    toy::RegisterToyKernels(registry_);
    std::vector<float> x(44);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    const HostView view{.dtype = DType::kFloat32,
                        .dims = {11, 4},
                        .data = reinterpret_cast<const std::byte*>(x.data()),
                        .bytes = 44 * sizeof(float)};
    EXPECT_EQ(Text(WriteNpy(folder_ / "x.npy", view)), "");
  }
  static Object Header(int64_t seed = 7) { return Object{{"fingerprint", "f00d"}, {"seed", seed}}; }
  // Trains from `position` on, with a log and evaluations.
  TrainResult Run(TrainPosition& position, int64_t steps, std::vector<RunFollower*> more = {}) {
    executor_ = Take(Executor::Create(plan_, Take(LayOut(plan_, 3)), TestDevice(), registry_, {}));
    const std::string spec = "x=" + folder_ / "x.npy";
    const auto data = Take(OpenDataSet(InputSlots(plan_.train.graph), 3, "--data", spec, {.seed = 7}));
    const auto eval =
        Take(OpenDataSet(InputSlots(plan_.eval.graph), 3, "--eval-data", spec, {.shuffle = false}));
    const auto log = Take(RunLog::Open(path_, Header(), position, executor_.get()));
    TrainOptions options{.steps = steps, .epochs = steps > 0 ? 0 : 2, .followers = {log.get()}};
    options.followers.insert(options.followers.end(), more.begin(), more.end());
    options.hyper.lr = 0.01;
    options.hyper.momentum = 0.9;
    TrainResult result = Take(Train(*executor_, *data, eval.get(), options, position));
    log->Event("end", position.step, Object{{"why", "done"}});
    return result;
  }
  // "header 0, step 0, step 1, evaluation 4": the kinds of all lines, and their steps.
  std::string Summary() {
    std::string summary;
    for (const Object& line : Lines())
      summary += (summary.empty() ? "" : ", ") + line.getString("kind")->str() + " " +
                 std::to_string(*line.getInteger("step"));
    return summary;
  }
  std::vector<Object> Lines() {
    std::vector<Object> lines;
    ForEachLine(testing::Contents(path_), [&](const Object& line, int64_t) {
      lines.push_back(line);
      return true;
    });
    return lines;
  }
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  std::string OpenError(const TrainPosition& start, const Object& header) {
    return Text(RunLog::Open(path_, header, start, nullptr).takeError());
  }

  Plan plan_ = toy::ToyPlan();
  KernelRegistry registry_;
  testing::TemporaryFolder folder_;
  std::unique_ptr<Executor> executor_;
  const std::string path_ = folder_ / "log";
};

TEST_F(RunLogTest, EveryLineIsJsonAndHoldsWhatTheStepWas) {
  TrainPosition position{.seed = 7};
  const TrainResult result = Run(position, 0);
  EXPECT_EQ(Summary(),
            "header 0, step 0, step 1, step 2, step 3, evaluation 4, step 4, step 5, step 6, step 7, "
            "evaluation 8, end 8");
  // Each line is a value for LLVM's parser, and the file ends with a whole one.
  const std::string text = testing::Contents(path_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 12);
  EXPECT_EQ(text.back(), '\n');
  size_t step = 0, evaluation = 0;
  for (const Object& line : Lines()) {
    if (line.getString("kind") == llvm::StringRef("step")) {
      EXPECT_EQ(line.getNumber("loss"), result.losses[step]);
      EXPECT_EQ(line.getNumber("lr"), 0.01);
      EXPECT_EQ(line.getNumber("seconds"), result.step_seconds[step]);
      EXPECT_EQ(line.getNumber("input_seconds"), result.input_seconds[step]);
      EXPECT_EQ(line.getInteger("epoch"), static_cast<int64_t>(step / 4));
      const int64_t samples = step % 4 == 3 ? 2 : 3;
      EXPECT_EQ(line.getInteger("samples"), samples);
      EXPECT_EQ(line.getNumber("samples_per_second"),
                static_cast<double>(samples) / result.step_seconds[step]);
      EXPECT_EQ(line.getInteger("peak_bytes"), executor_->arena().high_water_bytes());
      EXPECT_TRUE(line.get("gradient_norm")->getAsNull()) << "the plan has none";
      ++step;
    } else if (line.getString("kind") == llvm::StringRef("evaluation")) {
      EXPECT_EQ(line.getNumber("loss"), result.evaluations[evaluation].loss);
      EXPECT_EQ(line.getInteger("epoch"), static_cast<int64_t>(++evaluation));
    }
  }
  EXPECT_EQ(step, 8u);
}

// The second run begins at a checkpoint of an earlier step than the first one reached.
TEST_F(RunLogTest, ARunThatGoesOnRemovesTheStepsThatItRepeats) {
  TrainPosition position{.seed = 7};
  Run(position, 3);
  const TrainPosition saved = position;
  Run(position, 3);
  EXPECT_EQ(Summary(),
            "header 0, step 0, step 1, step 2, end 3, header 3, step 3, evaluation 4, step 4, step 5, end 6");
  Append("{\"kind\":\"step\",\"step\":6,\"lo");  // the machine stopped
  TrainPosition again = saved;
  Run(again, 2);
  EXPECT_EQ(
      Summary(),
      "header 0, step 0, step 1, step 2, end 3, header 3, header 3, step 3, evaluation 4, step 4, end 5");
}

// A checkpoint after the last step of an epoch may be of before or after the evaluation.
TEST_F(RunLogTest, AnEvaluationThatIsRepeatedIsThereOnce) {
  TrainPosition position{.seed = 7};
  Run(position, 5);
  TrainPosition before{.step = 4, .seed = 7, .epoch = 0, .position = 11};
  Run(before, 1);
  EXPECT_EQ(Summary(), "header 0, step 0, step 1, step 2, step 3, header 4, evaluation 4, step 4, end 5");
  TrainPosition after{.step = 4, .seed = 7, .epoch = 1, .position = 0};
  Run(after, 1);
  EXPECT_EQ(Summary(),
            "header 0, step 0, step 1, step 2, step 3, header 4, evaluation 4, header 4, step 4, end 5");
}

TEST_F(RunLogTest, APartOfALineIsSkippedAndRemoved) {
  TrainPosition position{.seed = 7};
  Run(position, 2);
  Append("{\"kind\":\"step\",\"step\":");
  EXPECT_EQ(Summary(), "header 0, step 0, step 1, end 2");
  Run(position, 1);
  EXPECT_EQ(Summary(), "header 0, step 0, step 1, end 2, header 2, step 2, end 3");
}

TEST_F(RunLogTest, ARunFromTheStartReplacesALogAndNothingElse) {
  TrainPosition position{.seed = 7}, again{.seed = 7};
  Run(position, 3);
  Run(again, 1);
  EXPECT_EQ(Summary(), "header 0, step 0, end 1");
  for (const std::string other : {"not JSON\n", "{\"kind\":\"step\"}\n", "{}", "\n"}) {
    std::ofstream(path_, std::ios::trunc) << other;
    const std::string error = OpenError({.seed = 7}, Header());
    EXPECT_NE(error.find("is no log of actrun"), std::string::npos) << other << ": " << error;
    EXPECT_EQ(testing::Contents(path_), other);
  }
}

TEST_F(RunLogTest, ALogOfAnotherRunIsRefusedAndStays) {
  TrainPosition position{.seed = 7};
  Run(position, 3);
  const std::string before = testing::Contents(path_);
  const TrainPosition start{.step = 3, .seed = 7};
  const auto refused = [&](Object header) {
    EXPECT_NE(OpenError(start, std::move(header)).find("is the log of another run"), std::string::npos);
    EXPECT_EQ(testing::Contents(path_), before);
  };
  refused(Header(8));
  refused(Object{{"fingerprint", "beef"}, {"seed", 7}});
}

TEST_F(RunLogTest, APathThatCannotBeWrittenIsAnError) {
  const std::string path = folder_ / "absent" + "/log";
  const std::string error = Text(RunLog::Open(path, Header(), {}, nullptr).takeError());
  EXPECT_NE(error.find(path + ": cannot write: "), std::string::npos) << error;
}

TEST_F(RunLogTest, OtherEventsAreLines) {
  auto log = Take(RunLog::Open(path_, Header(), {}, nullptr));
  ASSERT_EQ(Text(log->AfterNotFinite(3, {.name = "conv1 \"x\"", .text = "value 'conv1'"})), "");
  ASSERT_EQ(Text(log->AfterAdaptation({.step = 5, .measured = 4, .moved = 2, .peak_bytes = 100})), "");
  StepRecord step{.step = 9, .samples = 4, .loss = 0.5, .gradient_norm = 2.25};
  ASSERT_EQ(Text(log->AfterStep(step)), "");
  const std::vector<Object> lines = Lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1].getString("name"), llvm::StringRef("conv1 \"x\""));
  EXPECT_EQ(lines[2].getInteger("moved"), 2);
  EXPECT_EQ(lines[2].getInteger("planned_peak_bytes"), 100);
  EXPECT_EQ(lines[3].getNumber("gradient_norm"), 2.25);
  EXPECT_TRUE(lines[3].get("samples_per_second")->getAsNull()) << "a clock that stood still";
}

// Evaluations of the toy model fall forever, so the state of the stop is given.
TEST_F(RunLogTest, PatienceEndsTheRunAtTheEvaluationAndAtTheStartOfTheNextOne) {
  TrainPosition position{.seed = 7};
  position.best.loss = {.best = -1e30, .stale = 1};
  EarlyStop stop(3, Figure::kLoss, position);
  const TrainResult result = Run(position, 100, {&stop});
  EXPECT_EQ(result.losses.size(), 8u) << "the second evaluation that is no better is the third in a row";
  EXPECT_EQ(result.evaluations.size(), 2u);
  EXPECT_EQ(result.end_reason, "3 evaluations in a row did not improve the loss of -1e+30 (--patience)");
  EXPECT_EQ(position.best.loss.stale, 3);

  EarlyStop again(3, Figure::kLoss, position);
  EXPECT_EQ(Run(position, 100, {&again}).losses.size(), 0u) << "it has ended already";
  EarlyStop longer(4, Figure::kLoss, position);
  EXPECT_EQ(Run(position, 100, {&longer}).losses.size(), 4u);
  EarlyStop other(3, Figure::kAccuracy, position);
  EXPECT_EQ(Run(position, 5, {&other}).end_reason, "") << "no evaluation has told an accuracy";
}

}  // namespace
}  // namespace act
