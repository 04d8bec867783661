#include "runtime/train/checkpoint.h"
#include "kernels/site/dereference.h"
#include "tests/unit/test_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/data/dataset.h"
#include "runtime/data/npy.h"
#include "runtime/data/safetensors.h"
#include "runtime/train/run_report.h"
#include "runtime/train/trainer.h"
#include "tests/take.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/toy_plan.h"

namespace act {
namespace {

// A run of the toy model over 11 samples in batches of 3.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    toy::RegisterToyKernels(registry_);
    std::vector<float> x(44);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    WriteX(x);
  }
  void WriteX(const std::vector<float>& x) {
    const HostView view{.dtype = DType::kFloat32,
                        .dims = {static_cast<int64_t>(x.size()) / 4, 4},
                        .data = reinterpret_cast<const std::byte*>(x.data()),
                        .bytes = static_cast<int64_t>(x.size() * sizeof(float))};
    EXPECT_EQ(llvm::toString(WriteNpy(folder_ / "x.npy", view)), "");
  }
  std::unique_ptr<Executor> NewExecutor() {
    return Take(Executor::Create(plan_, Take(LayOut(plan_, 3)), TestDevice(), registry_, {}));
  }
  llvm::Expected<TrainResult> TryRun(Executor& executor, TrainPosition& position, TrainOptions options,
                                     bool evaluate = false) {
    const std::string spec = "x=" + folder_ / "x.npy";
    const auto data =
        Take(OpenDataSet(InputSlots(plan_.train.graph), 3, "--data", spec, {.seed = position.seed}));
    const auto eval =
        Take(OpenDataSet(InputSlots(plan_.eval.graph), 3, "--eval-data", spec, {.shuffle = false}));
    options.hyper.lr = 0.01;
    options.hyper.momentum = 0.9;
    return Train(executor, *data, evaluate ? eval.get() : nullptr, options, position);
  }
  TrainResult Run(Executor& executor, TrainPosition& position, TrainOptions options, bool evaluate = false) {
    return Take(TryRun(executor, position, std::move(options), evaluate));
  }
  std::string LoadError(const std::string& path, Executor& executor) {
    TrainPosition position;
    return llvm::toString(LoadCheckpoint(path, executor, position));
  }

  Plan plan_ = toy::ToyPlan();
  KernelRegistry registry_;
  testing::TemporaryFolder folder_;
};

TEST_F(CheckpointTest, HoldsTheNamesThatAreDocumented) {
  auto executor = NewExecutor();
  ASSERT_EQ(llvm::toString(SaveCheckpoint(folder_ / "c", *executor, {.step = 5, .seed = 7})), "");
  const Safetensors file = Take(Safetensors::Open(folder_ / "c"));
  std::string names;
  for (const auto& [name, view] : file.tensors()) names += name + ":" + ToString(view) + " ";
  EXPECT_EQ(names,
            "buffer.seen:f32[1] epoch:i64[] kernels:i64[2] optimizer.w.velocity:f32[4] param.w:f32[4] "
            "position:i64[] seed:i64[] stale_evaluations:i64[2] step:i64[] ");
}

TEST_F(CheckpointTest, HoldsTheNumberOfSamplesOfItsData) {
  auto executor = NewExecutor();
  for (const TrainPosition& position :
       {TrainPosition{.step = 2, .position = 6, .samples = 11}, TrainPosition{.step = 2}}) {
    ASSERT_EQ(Text(SaveCheckpoint(folder_ / "c", *executor, position)), "");
    EXPECT_EQ(Take(ReadPosition(folder_ / "c")), position);
  }
  EXPECT_FALSE(Take(Safetensors::Open(folder_ / "c")).Find("samples")) << "0 is left out";
}

TEST(GoOnWithData, StartsTheEpochAnewWhereItsOrderMeansNothing) {
  const TrainPosition within{.step = 2, .epoch = 3, .position = 6, .samples = 11};
  TrainPosition same = within, other = within, at_start = within, unknown = within, beyond = within,
                endless = within;
  EXPECT_EQ(GoOnWithData(same, 11), "");
  EXPECT_EQ(same, within);
  EXPECT_EQ(GoOnWithData(other, 30),
            "6 of 11 samples of an epoch were seen, and the data now has 30: the epoch begins anew");
  EXPECT_EQ(other, (TrainPosition{.step = 2, .epoch = 3, .position = 0, .samples = 30}));
  at_start.position = 0;
  EXPECT_EQ(GoOnWithData(at_start, 30), "");
  EXPECT_EQ(at_start.samples, 30);
  // Of a file that does not tell the number.
  unknown.samples = beyond.samples = 0;
  EXPECT_EQ(GoOnWithData(unknown, 6), "");
  EXPECT_EQ(unknown.position, 6);
  EXPECT_EQ(GoOnWithData(beyond, 5),
            "6 samples of an epoch were seen, and the data now has 5: the epoch begins anew");
  EXPECT_EQ(beyond.position, 0);
  EXPECT_EQ(GoOnWithData(endless, 0), "");
}

TEST(BestEvaluations, KeepTheLowestLossAndTheHighestAccuracy) {
  BestEvaluations best;
  best.Add({.epoch = 1, .loss = std::nan(""), .accuracy = 0.5});
  EXPECT_EQ(best.loss, (BestFigure{.best = std::nullopt, .stale = 1}));
  best.Add({.epoch = 2, .loss = 2, .accuracy = 0.5});
  EXPECT_EQ(best.loss, (BestFigure{.best = 2, .stale = 0}));
  EXPECT_EQ(best.accuracy, (BestFigure{.best = 0.5, .stale = 1})) << "equal is not better";
  best.Add({.epoch = 3, .loss = 3, .accuracy = 0.75});
  EXPECT_EQ(best.loss, (BestFigure{.best = 2, .stale = 1}));
  EXPECT_EQ(best.accuracy, (BestFigure{.best = 0.75, .stale = 0}));
  best.Add({.epoch = 4, .loss = 1, .accuracy = std::nullopt});
  EXPECT_EQ(best.loss, (BestFigure{.best = 1, .stale = 0}));
  EXPECT_EQ(best.accuracy, (BestFigure{.best = 0.75, .stale = 0})) << "a figure that was not measured";
}

TEST_F(CheckpointTest, KeepsTheBestEvaluations) {
  auto executor = NewExecutor();
  const TrainPosition none{.step = 1},
      both{.step = 5, .best = {.loss = {.best = 0.25, .stale = 3}, .accuracy = {.best = 0.1, .stale = 2}}};
  for (const TrainPosition& position : {none, both}) {
    ASSERT_EQ(llvm::toString(SaveCheckpoint(folder_ / "c", *executor, position)), "");
    TrainPosition read;
    ASSERT_EQ(llvm::toString(LoadCheckpoint(folder_ / "c", *executor, read)), "");
    EXPECT_EQ(read, position);
  }
}

TEST_F(CheckpointTest, BestEvaluationsThatAreNoneAreRefused) {
  auto executor = NewExecutor();
  const auto load = [&](const TrainPosition& position) {
    EXPECT_EQ(llvm::toString(SaveCheckpoint(folder_ / "c", *executor, position)), "");
    return LoadError(folder_ / "c", *executor);
  };
  const std::string infinite = load({.best = {.loss = {.best = HUGE_VAL}, .accuracy = {}}});
  EXPECT_NE(infinite.find("'best_loss': is not finite"), std::string::npos) << infinite;
  const std::string negative = load({.best = {.loss = {}, .accuracy = {.best = 1, .stale = -1}}});
  EXPECT_NE(negative.find("'stale_evaluations': is negative"), std::string::npos) << negative;
}

TEST_F(CheckpointTest, AContinuedRunIsBitIdenticalToOneThatNeverStopped) {
  // An epoch has 4 steps, the last with 2 samples. Runs stop within epochs and at their ends.
  auto whole = NewExecutor();
  TrainPosition whole_position{.seed = 7};
  const TrainResult all = Run(*whole, whole_position, {.steps = 14});
  ASSERT_EQ(llvm::toString(SaveCheckpoint(folder_ / "whole", *whole, whole_position)), "");
  for (int64_t first : {1, 4, 7, 8, 13}) {
    auto one = NewExecutor();
    TrainPosition position{.seed = 7};
    const TrainResult before = Run(*one, position, {.steps = first});
    ASSERT_EQ(llvm::toString(SaveCheckpoint(folder_ / "part", *one, position)), "");
    auto two = NewExecutor();
    TrainPosition loaded{.seed = 99};
    ASSERT_EQ(llvm::toString(LoadCheckpoint(folder_ / "part", *two, loaded)), "");
    EXPECT_EQ(loaded, position);
    const TrainResult after = Run(*two, loaded, {.steps = 14 - first});
    std::vector<double> losses = before.losses;
    losses.insert(losses.end(), after.losses.begin(), after.losses.end());
    EXPECT_EQ(losses, all.losses) << "stopped after step " << first;
    ASSERT_EQ(llvm::toString(SaveCheckpoint(folder_ / "rest", *two, loaded)), "");
    EXPECT_EQ(testing::Contents(folder_ / "rest"), testing::Contents(folder_ / "whole"));
  }
}

TEST_F(CheckpointTest, EpochsEndTheRunAndAreEvaluated) {
  auto executor = NewExecutor();
  TrainPosition position{.seed = 7};
  const TrainResult result = Run(*executor, position, {.epochs = 2}, true);
  EXPECT_EQ(result.losses.size(), 8u);
  EXPECT_EQ(position.step, 8u);
  EXPECT_EQ(position.epoch, 2u);
  EXPECT_EQ(position.position, 0);
  ASSERT_EQ(result.evaluations.size(), 2u);
  EXPECT_EQ(result.evaluations[1].epoch, 2u);
  EXPECT_FALSE(result.evaluations[1].accuracy.has_value()) << "the toy has no classes";
  // Each batch's loss is a sum. The batches have 3, 3, 3 and 2 samples, and are weighted by these.
  const float* w = executor->persistents()[0].view.as<float>();
  double expected = 0;
  for (int i = 0; i < 44; ++i) {
    const double samples = i < 36 ? 3 : 2;
    expected += std::sin(static_cast<double>(i)) * w[i % 4] * samples / 11;
  }
  EXPECT_NEAR(result.evaluations[1].loss, expected, 1e-5);  // 44 float32 terms of about 1
}

TEST_F(CheckpointTest, ASignalEndsTheRunAfterTheStep) {
  auto executor = NewExecutor();
  TrainPosition position{.seed = 7};
  const volatile std::sig_atomic_t stop = 1;
  const TrainResult result = Run(*executor, position, {.epochs = 5, .stop = &stop});
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(position.step, 1u);
  EXPECT_EQ(position.position, 3);
}

TEST_F(CheckpointTest, ALossThatIsNotFiniteEndsTheRunAndNamesTheStep) {
  std::vector<float> x(24, 1.f);  // 6 samples, of which two have an infinity
  x[0] = x[20] = std::numeric_limits<float>::infinity();
  WriteX(x);
  auto executor = NewExecutor();
  TrainPosition position{.seed = 7};
  auto result = TryRun(*executor, position, {.steps = 10});
  ASSERT_FALSE(static_cast<bool>(result));
  const std::string text = llvm::toString(result.takeError());
  EXPECT_NE(text.find("step " + std::to_string(position.step) + ": the loss is "), std::string::npos) << text;
}

TEST_F(CheckpointTest, ACheckpointOfAnotherModelChangesNothing) {
  auto executor = NewExecutor();
  const float w[] = {9, 9, 9, 9};
  const HostView four{
      .dtype = DType::kFloat32, .dims = {4}, .data = reinterpret_cast<const std::byte*>(w), .bytes = 16};
  const HostView two{
      .dtype = DType::kFloat32, .dims = {2}, .data = reinterpret_cast<const std::byte*>(w), .bytes = 8};
  ASSERT_EQ(llvm::toString(WriteSafetensors(folder_ / "c", {{"param.w", four}})), "");
  EXPECT_NE(LoadError(folder_ / "c", *executor).find("tensor 'buffer.seen': is missing; expected f32[1]"),
            std::string::npos);
  ASSERT_EQ(llvm::toString(WriteSafetensors(folder_ / "c", {{"param.w", two}, {"buffer.seen", two}})), "");
  EXPECT_NE(LoadError(folder_ / "c", *executor).find("tensor 'param.w': expected f32[4], found f32[2]"),
            std::string::npos);
  EXPECT_EQ(executor->persistents()[0].view.as<float>()[0], 1) << "w as the plan has it";
}

TEST_F(CheckpointTest, WeightsAloneLoadToo) {
  auto executor = NewExecutor();
  const float w[] = {9, 8, 7, 6};
  const HostView four{
      .dtype = DType::kFloat32, .dims = {4}, .data = reinterpret_cast<const std::byte*>(w), .bytes = 16};
  const HostView one{
      .dtype = DType::kFloat32, .dims = {1}, .data = reinterpret_cast<const std::byte*>(w), .bytes = 4};
  ASSERT_EQ(llvm::toString(WriteSafetensors(folder_ / "c", {{"param.w", four}, {"buffer.seen", one}})), "");
  TrainPosition position{.seed = 7};
  ASSERT_EQ(llvm::toString(LoadCheckpoint(folder_ / "c", *executor, position)), "");
  EXPECT_EQ(position, (TrainPosition{.seed = 7}));
  EXPECT_EQ(std::memcmp(executor->persistents()[0].view.as<void>(), w, sizeof w), 0);
}

TEST(StepTimes, AreMedianMinimumAndNearestRank) {
  EXPECT_EQ(Summarize({3, 1, 2}).median, 2);
  EXPECT_EQ(Summarize({4, 1, 2, 3}).median, 2.5);
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(i);
  EXPECT_EQ(Summarize(hundred).p99, 99);
  EXPECT_EQ(Summarize(hundred).min, 1);
  EXPECT_EQ(Summarize({5}).p99, 5);
  EXPECT_EQ(Summarize({}).median, 0);
}

}  // namespace
}  // namespace act
