// When states of a run are written, which of them stay, and where a run that goes on ends.
#include "runtime/train/run_saver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/data/dataset.h"
#include "runtime/data/npy.h"
#include "runtime/train/trainer.h"
#include "tests/take.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/test_device.h"
#include "tests/unit/toy_plan.h"

namespace act {
namespace {

using testing::Contents;
using testing::Overwrite;
using Names = std::vector<std::string>;

// A run of the toy model over 11 samples in batches of 3: four steps an epoch.
class RunSaverTest : public ::testing::Test {
 protected:
  RunSaverTest() {
    toy::RegisterToyKernels(registry_);
    std::vector<float> x(44);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    const HostView view{.dtype = DType::kFloat32,
                        .dims = {11, 4},
                        .data = reinterpret_cast<const std::byte*>(x.data()),
                        .bytes = static_cast<int64_t>(x.size() * sizeof(float))};
    EXPECT_EQ(llvm::toString(WriteNpy(folder_ / "x.npy", view)), "");
    executor_ = NewExecutor();
  }
  std::unique_ptr<Executor> NewExecutor() {
    return Take(Executor::Create(plan_, Take(LayOut(plan_, 3)), TestDevice(), registry_, {}));
  }
  TrainResult Run(Executor& executor, TrainPosition& position, TrainOptions options) {
    const std::string spec = "x=" + folder_ / "x.npy";
    const auto data =
        Take(OpenDataSet(InputSlots(plan_.train.graph), 3, "--data", spec, {.seed = position.seed}));
    const auto eval =
        Take(OpenDataSet(InputSlots(plan_.eval.graph), 3, "--eval-data", spec, {.shuffle = false}));
    options.hyper.lr = 0.01;
    options.hyper.momentum = 0.9;
    return Take(Train(executor, *data, eval.get(), options, position));
  }
  CheckpointFiles Files() const { return CheckpointFiles(folder_ / "run.st"); }
  // Names of the run's files, without "run." and ".st".
  Names Kept() const {
    Names names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("run.", 0) == 0 && name.size() > 7) names.push_back(name.substr(4, name.size() - 7));
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  void At(RunSaver& saver, uint64_t step) {
    EXPECT_EQ(llvm::toString(saver.AtState(*executor_, {.step = step})), "");
  }
  void Evaluated(RunSaver& saver, double loss, std::optional<double> accuracy = std::nullopt) {
    TrainPosition position{.step = 4};
    position.best.loss.best = -100;  // of a run with other data, which this one continues
    EXPECT_EQ(llvm::toString(saver.AfterEvaluation(*executor_, position,
                                                   {.epoch = 1, .loss = loss, .accuracy = accuracy})),
              "");
  }
  double BestLossOnDisk() { return *Take(ReadPosition(Files().best())).best.loss.best; }

  Plan plan_ = toy::ToyPlan();
  KernelRegistry registry_;
  testing::TemporaryFolder folder_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(RunSaverTest, NamesSortByStep) {
  const CheckpointFiles files("folder/run.safetensors");
  EXPECT_EQ(files.AtStep(1200), "folder/run.step-00001200.safetensors");
  EXPECT_EQ(files.AtStep(123456789), "folder/run.step-123456789.safetensors");
  EXPECT_EQ(files.best(), "folder/run.best.safetensors");
  EXPECT_EQ(CheckpointFiles("run").AtStep(5), "run.step-00000005");
}

TEST_F(RunSaverTest, StepsAreCountedFromTheStartOfTraining) {
  RunSaver saver(Files(), {.every = {.steps = 5}});
  for (uint64_t step = 8; step < 16; ++step)
    EXPECT_EQ(saver.WantsState({.step = step}), step == 10 || step == 15) << step;
}

TEST_F(RunSaverTest, TimeIsCountedFromTheLastState) {
  std::chrono::steady_clock::time_point now{};
  RunSaver saver(Files(), {.every = {.time = std::chrono::seconds(10)}, .now = [&] { return now; }});
  EXPECT_FALSE(saver.WantsState({.step = 1}));
  now += std::chrono::milliseconds(9999);
  EXPECT_FALSE(saver.WantsState({.step = 2}));
  now += std::chrono::milliseconds(1);
  EXPECT_TRUE(saver.WantsState({.step = 3}));
  At(saver, 3);
  EXPECT_FALSE(saver.WantsState({.step = 4}));
  now += std::chrono::seconds(10);
  EXPECT_TRUE(saver.WantsState({.step = 5}));
}

TEST_F(RunSaverTest, TheNewestStay) {
  RunSaver saver(Files(), {.every = {.steps = 1}, .keep = 2});
  for (const uint64_t step : {1, 2, 3}) At(saver, step);
  EXPECT_EQ(Kept(), (Names{"step-00000002", "step-00000003"}));
  // A run that goes on counts them, but not a damaged one, which says nothing of the run.
  Overwrite(Files().AtStep(1), "damaged");
  RunSaver next(Files(), {.every = {.steps = 1}, .keep = 2});
  next.Continue(Files().Find());
  At(next, 4);
  EXPECT_EQ(Kept(), (Names{"step-00000001", "step-00000003", "step-00000004"}));
}

TEST_F(RunSaverTest, FilesOnTheWayStayIfNoneAreWritten) {
  RunSaver saver(Files(), {.every = {.steps = 1}, .keep = 3});
  for (const uint64_t step : {1, 2, 3}) At(saver, step);
  RunSaver best(Files(), {.keep = 1, .best = BestBy::kLoss});
  best.Continue(Files().Find());
  EXPECT_EQ(Kept().size(), 3u);
  RunSaver fewer(Files(), {.every = {.steps = 1}, .keep = 1});
  fewer.Continue(Files().Find());
  EXPECT_EQ(Kept(), (Names{"step-00000003"})) << "as after a kill before the older file was removed";
}

TEST_F(RunSaverTest, AStateThatCannotBeWrittenIsAWarningAndRemovesNothing) {
  RunSaver saver(Files(), {.every = {.steps = 1}, .keep = 1});
  At(saver, 1);
  std::filesystem::create_directory(Files().AtStep(2));
  At(saver, 2);
  const Names warnings = saver.TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("step 2 is not saved: " + Files().AtStep(2) + ": cannot write"),
            std::string::npos)
      << warnings[0];
  EXPECT_NE(warnings[0].find("last state on the disk is of step 1"), std::string::npos) << warnings[0];
  EXPECT_TRUE(std::filesystem::is_regular_file(Files().AtStep(1)));
  At(saver, 3);
  EXPECT_TRUE(saver.TakeWarnings().empty());
  EXPECT_FALSE(std::filesystem::exists(Files().AtStep(1)));

  RunSaver nowhere(CheckpointFiles(folder_ / "gone/run.st"), {.every = {.steps = 1}});
  At(nowhere, 1);
  const Names gone = nowhere.TakeWarnings();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_NE(gone[0].find("nothing of this run is saved yet"), std::string::npos) << gone[0];
}

TEST_F(RunSaverTest, TheBestIsReplacedByABetterOneAlone) {
  RunSaver saver(Files(), {.best = BestBy::kLoss});
  Evaluated(saver, std::nan(""));
  EXPECT_FALSE(std::filesystem::exists(Files().best()));
  Evaluated(saver, 3);
  EXPECT_EQ(BestLossOnDisk(), 3) << "the figure of this state";
  Evaluated(saver, 3.5);
  EXPECT_EQ(BestLossOnDisk(), 3);
  // A run that goes on knows of it; one that starts over does not.
  RunSaver next(Files(), {.best = BestBy::kLoss});
  next.Continue(Files().Find());
  Evaluated(next, 3.25);
  EXPECT_EQ(BestLossOnDisk(), 3);
  Evaluated(next, 2.5);
  EXPECT_EQ(BestLossOnDisk(), 2.5);
  RunSaver fresh(Files(), {.best = BestBy::kLoss});
  Evaluated(fresh, 9);
  EXPECT_EQ(BestLossOnDisk(), 9);
}

TEST_F(RunSaverTest, AccuracyIsBetterWhereItIsHigher) {
  RunSaver saver(Files(), {.best = BestBy::kAccuracy});
  const auto on_disk = [&] { return *Take(ReadPosition(Files().best())).best.accuracy.best; };
  Evaluated(saver, 1);
  EXPECT_FALSE(std::filesystem::exists(Files().best())) << "no label was counted";
  for (const double accuracy : {.5, .75, .25}) Evaluated(saver, 1, accuracy);
  EXPECT_EQ(on_disk(), .75);
}

TEST_F(RunSaverTest, TheBestThatCouldNotBeWrittenGivesWayToTheNextGoodOne) {
  RunSaver saver(Files(), {.best = BestBy::kLoss});
  std::filesystem::create_directory(Files().best());
  Evaluated(saver, 1);
  EXPECT_EQ(saver.TakeWarnings().size(), 1u);
  std::filesystem::remove(Files().best());
  Evaluated(saver, 2);
  EXPECT_EQ(BestLossOnDisk(), 2);
}

TEST_F(RunSaverTest, TheNewestStateIsThatOfTheMostSteps) {
  const auto save = [&](const std::string& path, const TrainPosition& position) {
    EXPECT_EQ(llvm::toString(SaveCheckpoint(path, *executor_, position)), "");
  };
  save(Files().AtStep(8), {.step = 8, .epoch = 1, .position = 11});
  save(Files().AtStep(4), {.step = 4});
  save(Files().last(), {.step = 3});  // written last
  const auto newest = [&] { return Files().Find().found.back().path; };
  EXPECT_EQ(newest(), Files().AtStep(8));
  // The name is not asked.
  save(Files().AtStep(5), {.step = 9});
  EXPECT_EQ(newest(), Files().AtStep(5));
  std::filesystem::remove(Files().AtStep(5));
  // The end of the epoch comes after its last step, and was evaluated.
  save(Files().last(), {.step = 8, .epoch = 2});
  EXPECT_EQ(newest(), Files().last());
  save(Files().best(), {.step = 20});
  EXPECT_EQ(newest(), Files().last()) << "the best state is no state on the way";
}

TEST_F(RunSaverTest, DamagedFilesAreTold) {
  EXPECT_EQ(llvm::toString(SaveCheckpoint(Files().AtStep(4), *executor_, {.step = 4})), "");
  const std::string bytes = Contents(Files().AtStep(4));
  Overwrite(Files().AtStep(5), bytes.substr(0, bytes.size() - 1));
  Overwrite(Files().AtStep(6), std::string(bytes.size(), '\0'));
  Overwrite(Files().AtStep(7), "");
  Overwrite(folder_ / "run.step-8.st", "not a name of ours");
  const CheckpointFiles::Search search = Files().Find();
  ASSERT_EQ(search.found.size(), 1u);
  ASSERT_EQ(search.damaged.size(), 3u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NE(search.damaged[i].find(Files().AtStep(5 + i)), std::string::npos) << search.damaged[i];
}

TEST_F(RunSaverTest, OnlyTemporaryFilesOfTheRunAreRemoved) {
  const Names ours = {"run.st.0123abcd.tmp", "run.best.st.ffffffff.tmp", "run.step-00000005.st.00000000.tmp"};
  const Names others = {"run.st.0123abc.tmp",    "run.st.0123ABCD.tmp",  "run.st",
                        "other.st.0123abcd.tmp", "run.step-00000005.st", "run.step-5.st.0123abcd.tmp"};
  for (const Names& names : {ours, others})
    for (const std::string& name : names) Overwrite(folder_ / name, "");
  Files().RemoveTemporary();
  for (const std::string& name : ours) EXPECT_FALSE(std::filesystem::exists(folder_ / name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(std::filesystem::exists(folder_ / name)) << name;
}

// By the clock, states are saved at steps that differ from run to run.
TEST_F(RunSaverTest, SavingChangesNothing) {
  std::string end;
  for (const int seconds : {0, 1, 3, 7}) {  // between two looks at the clock; the first run saves nothing
    auto executor = NewExecutor();
    TrainPosition position{.seed = 7};
    std::chrono::steady_clock::time_point now{};
    RunSaver saver(Files(), {.every = {.time = std::chrono::seconds(10)}, .best = BestBy::kLoss, .now = [&] {
                               return now += std::chrono::seconds(seconds);
                             }});
    TrainOptions options{.steps = 11};
    if (!end.empty()) options.followers = {&saver};
    Run(*executor, position, options);
    EXPECT_EQ(llvm::toString(SaveCheckpoint(folder_ / "end", *executor, position)), "");
    if (end.empty()) end = Contents(folder_ / "end");
    EXPECT_EQ(Contents(folder_ / "end"), end);
  }
  EXPECT_GE(Kept().size(), 2u) << "states on the way and the best one";
}

// Stops after each of the steps and goes on to the same end, with a schedule that depends on it.
TEST_F(RunSaverTest, ARunThatGoesOnEndsWhereItWouldHaveEnded) {
  struct End {
    int64_t steps, epochs;
    uint64_t step;
  };
  for (const End end : {End{0, 3, 12}, End{8, 0, 8}, End{10, 0, 10}, End{10, 2, 8}, End{6, 2, 6}}) {
    TrainOptions options{.steps = end.steps, .epochs = end.epochs};
    options.schedule = Take(LearningRateSchedule::Parse("cosine"));
    auto whole = NewExecutor();
    TrainPosition whole_position{.seed = 7};
    RunSaver saver(Files(), {.every = {.steps = 1}, .keep = 100});
    options.followers = {&saver};
    const TrainResult all = Run(*whole, whole_position, options);
    EXPECT_EQ(whole_position.step, end.step);
    EXPECT_EQ(llvm::toString(SaveCheckpoint(folder_ / "whole", *whole, whole_position)), "");
    options.followers = {};
    options.from_start = true;
    const CheckpointFiles::Search search = Files().Find();
    EXPECT_EQ(search.found.size(), end.step);
    for (const CheckpointFiles::Found& found : search.found) {
      auto executor = NewExecutor();
      TrainPosition position;
      EXPECT_EQ(llvm::toString(LoadCheckpoint(found.path, *executor, position)), "");
      const TrainResult rest = Run(*executor, position, options);
      EXPECT_EQ(rest.losses,
                std::vector<double>(all.losses.begin() + static_cast<int64_t>(found.position.step),
                                    all.losses.end()))
          << found.path;
      // Every epoch is evaluated once, by the run that ends it. A state at its end comes before that.
      EXPECT_EQ(rest.evaluations.size(), all.evaluations.size() - (found.position.step - 1) / 4)
          << found.path;
      EXPECT_EQ(llvm::toString(SaveCheckpoint(folder_ / "rest", *executor, position)), "");
      EXPECT_EQ(Contents(folder_ / "rest"), Contents(folder_ / "whole")) << found.path;
      std::filesystem::remove(found.path);
    }
    // The run is at its end: nothing is left to do.
    const TrainResult none = Run(*whole, whole_position, options);
    EXPECT_TRUE(none.losses.empty() && none.evaluations.empty());
    EXPECT_EQ(whole_position.step, end.step);
  }
}

}  // namespace
}  // namespace act
