// Runs whose next batch is read in the background have the bits of runs without that.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/data/dataset.h"
#include "runtime/data/npy.h"
#include "runtime/train/input_staging.h"
#include "runtime/train/run_report.h"
#include "runtime/train/trainer.h"
#include "tests/take.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/test_device.h"
#include "tests/unit/toy_plan.h"

namespace act {
namespace {

// Fills the inputs of every step three times before it, as a measurement does.
class FillsInBetween : public BetweenSteps {
 public:
  llvm::Expected<Outcome> Before(Executor& executor, BatchSource& data, int64_t batch,
                                 const StepState&) override {
    ACT_TRY(BoundGraph* const graph, executor.Train(batch));
    for (int i = 0; i < 3; ++i) {
      ACT_CHECK_OK(FillInputs(*graph, data));
      const TensorView& x = graph->view(graph->step().graph.inputs[0]);
      for (int64_t k = 0; k < x.elements; ++k) sum_ += x.as<float>()[k];
    }
    return Outcome{};
  }
  double sum() const { return sum_; }

 private:
  double sum_ = 0;
};

// The toy model over 11 samples in batches of 3, evaluated on the same samples.
class PrefetchedRun : public ::testing::Test {
 protected:
  PrefetchedRun() {
    toy::RegisterToyKernels(registry_);
    std::vector<float> x(44);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    const HostView view{.dtype = DType::kFloat32,
                        .dims = {11, 4},
                        .data = reinterpret_cast<const std::byte*>(x.data()),
                        .bytes = static_cast<int64_t>(x.size() * sizeof(float))};
    EXPECT_EQ(Text(WriteNpy(folder_ / "x.npy", view)), "");
  }
  struct Ended {
    std::vector<double> losses, evaluations;
    double seen_in_between = 0;
    std::string checkpoint;  // its bytes
    bool operator==(const Ended&) const = default;
  };
  // Trains `steps` steps from a checkpoint (empty: from the start).
  Ended Train(bool prefetched, int64_t steps, const std::string& load = "") {
    const auto executor =
        Take(Executor::Create(plan_, Take(LayOut(plan_, 3)), TestDevice(), registry_, {.evaluates = true}));
    TrainPosition position{.seed = 7};
    if (!load.empty()) {
      testing::Overwrite(folder_ / "load", load);
      EXPECT_EQ(Text(LoadCheckpoint(folder_ / "load", *executor, position)), "");
    }
    const bool partial = !plan_.fixed_batch;
    const std::string spec = "x=" + folder_ / "x.npy";
    auto data = Take(OpenDataSet(InputSlots(plan_.train.graph), 3, "--data", spec,
                                 {.seed = position.seed, .partial_batch = partial}));
    auto eval = Take(OpenDataSet(InputSlots(plan_.eval.graph), 3, "--eval-data", spec,
                                 {.shuffle = false, .partial_batch = partial}));
    if (prefetched) PrefetchInputs(plan_, executor->layout(), data, eval);
    FillsInBetween between;
    TrainOptions options{.steps = steps, .between = &between};
    options.hyper.lr = 0.01;
    options.hyper.momentum = 0.9;
    const TrainResult result = Take(act::Train(*executor, *data, eval.get(), options, position));
    EXPECT_EQ(Text(SaveCheckpoint(folder_ / "save", *executor, position)), "");
    Ended ended{.losses = result.losses,
                .evaluations = {},
                .seen_in_between = between.sum(),
                .checkpoint = testing::Contents(folder_ / "save")};
    for (const Evaluation& evaluation : result.evaluations) ended.evaluations.push_back(evaluation.loss);
    return ended;
  }

  Plan plan_ = toy::ToyPlan();
  KernelRegistry registry_;
  testing::TemporaryFolder folder_;
};

TEST_F(PrefetchedRun, HasTheSameBits) {
  for (const bool fixed_batch : {false, true}) {
    plan_.fixed_batch = fixed_batch;
    const Ended plain = Train(false, 14);
    EXPECT_EQ(plain.losses.size(), 14u);
    EXPECT_EQ(plain.evaluations.size(), fixed_batch ? 4u : 3u);
    EXPECT_EQ(Train(true, 14), plain) << "fixed batch: " << fixed_batch;
  }
}

// An epoch has 4 steps.
TEST_F(PrefetchedRun, GoesOnFromACheckpointOfAnyStep) {
  const Ended plain = Train(false, 14);
  for (int64_t first = 1; first < 10; ++first) {
    const Ended before = Train(true, first), after = Train(true, 14 - first, before.checkpoint);
    std::vector<double> losses = before.losses;
    losses.insert(losses.end(), after.losses.begin(), after.losses.end());
    EXPECT_EQ(losses, plain.losses) << "stopped after step " << first;
    EXPECT_TRUE(after.checkpoint == plain.checkpoint) << "stopped after step " << first;
  }
}

TEST_F(PrefetchedRun, TellsTheBytesThatItTakes) {
  const MemoryLayout layout = Take(LayOut(plan_, 3));
  EXPECT_EQ(InputBytes(plan_.train, layout.train, 3), SampleBytes{16});
  // 48 bytes of a batch, rounded up to a cache line
  EXPECT_EQ(InputStagingBytes(plan_, layout, true), 64);
  plan_.eval.graph.values[static_cast<size_t>(plan_.eval.graph.inputs[0])].type.dims[1] = 8;
  EXPECT_EQ(InputStagingBytes(plan_, Take(LayOut(plan_, 3)), true), 128);
  EXPECT_EQ(InputStagingBytes(plan_, Take(LayOut(plan_, 3)), false), 64);

  const Plan toy = toy::ToyPlan();
  const auto executor = Take(Executor::Create(toy, Take(LayOut(toy, 3)), TestDevice(), registry_, {}));
  const TrainResult result;
  RunReport report;
  report.executor = executor.get();
  report.result = &result;
  report.staging_bytes = 64;
  EXPECT_NE(
      FormatRunReport(report).find("next step's inputs     64 B (64 bytes) of the host, beside the arena"),
      std::string::npos)
      << FormatRunReport(report);
  EXPECT_NE(RunReportJson(report).find("\"staging_bytes\": 64"), std::string::npos);
  report.staging_bytes = 0;
  EXPECT_EQ(FormatRunReport(report).find("next step's inputs"), std::string::npos);
}

}  // namespace
}  // namespace act
