#include "runtime/executor/kernel_tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "runtime/executor/executor.h"
#include "runtime/executor/profile.h"
#include "tests/take.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/test_device.h"
#include "tests/unit/timed_kernels.h"
#include "tests/unit/toy_plan.h"

namespace act {
namespace {

using testing::TimedKernels;

constexpr double kMillisecond = 1e-3;

// The toy plan, whose product has several kernels. Each says what it is by what it computes.
class KernelTunerTest : public ::testing::Test {
 protected:
  KernelTunerTest() {
    KernelRegistry toys;
    toy::RegisterToyKernels(toys);
    for (const auto& [op, entries] : toys.all())
      for (const KernelEntry& entry : entries)
        if (op != "Mul") registry_.Add(op, entry);
  }

  // y = x w, as the toy plan's own kernel.
  void Add(const std::string& name, const TimedKernels::Spec& kernel) {
    timed_.Add(registry_, "Mul", name, kernel, [](const KernelArgs& k) {
      for (int64_t i = 0; i < k.outputs[0].elements; ++i)
        k.outputs[0].as<float>()[i] = k.inputs[0].as<float>()[i] * k.inputs[1].as<float>()[i % 4];
    });
  }
  void AddSlowAndFast() {
    Add("slow", {.seconds = 3 * kMillisecond});
    Add("fast", {.seconds = 2 * kMillisecond});
  }

  KernelTuner NewTuner(KernelTunerOptions options = {}) {
    options.machine = {.processor = "toy", .threads = 1, .software = "test"};
    options.clock = timed_.Clock();
    options.say = [this](const std::string& line) { said_.push_back(line); };
    return KernelTuner(std::move(options));
  }
  std::unique_ptr<Executor> NewExecutor(KernelTuner& tuner, bool evaluates = false) {
    return Take(Executor::Create(plan_, Take(LayOut(plan_, 3)), TestDevice(), registry_,
                                 {.tuner = &tuner, .evaluates = evaluates}));
  }
  // The kernel of the product after a run's start.
  std::string Chosen(KernelTuner& tuner) { return KernelOf(*Take(NewExecutor(tuner)->Train(3))); }
  std::string Chosen(KernelTunerOptions options = {}) {
    KernelTuner tuner = NewTuner(std::move(options));
    return Chosen(tuner);
  }
  static std::string KernelOf(const BoundGraph& graph) { return graph.nodes()[0].kernel_name; }
  std::string AllSaid() const {
    std::string all;
    for (const std::string& line : said_) all += line + "\n";
    return all;
  }

  Plan plan_ = toy::ToyPlan();
  TimedKernels timed_;
  KernelRegistry registry_;
  testing::TemporaryFolder folder_;
  std::vector<std::string> said_;
};

TEST_F(KernelTunerTest, TakesTheFasterOne) {
  AddSlowAndFast();
  KernelTuner tuner = NewTuner();
  const auto executor = NewExecutor(tuner);
  const BoundGraph& graph = *Take(executor->Train(3));
  EXPECT_EQ(KernelOf(graph), "fast");
  EXPECT_EQ(tuner.Count().timed, 1);
  EXPECT_EQ(tuner.Count().differ, 1);
  EXPECT_EQ(tuner.Describe(), "1 site timed, 1 differs from the fixed order");
  const std::string dispatch = FormatDispatch(graph.nodes());
  EXPECT_NE(dispatch.find("timed: slow 3.000 ms, fast 2.000 ms"), std::string::npos) << dispatch;
}

// Kernels are timed in the arena that the weights then fill, and within the memory that was promised.
TEST_F(KernelTunerTest, LeavesNoTraceInTheStep) {
  AddSlowAndFast();
  KernelTuner tuner = NewTuner();
  const auto executor = NewExecutor(tuner, /*evaluates=*/true);
  EXPECT_EQ(executor->arena().high_water_bytes(), executor->layout().train.peak_bytes);
  BoundGraph* const graph = Take(executor->Train(3));
  const TensorView& x = graph->view(graph->step().graph.inputs[0]);
  for (int64_t i = 0; i < x.elements; ++i) x.as<float>()[i] = static_cast<float>(i + 1);
  ASSERT_EQ(Text(executor->Run(*graph, {.update = {.hyper = {.lr = 0.5}}})), "");
  EXPECT_EQ(*graph->view(plan_.train.graph.outputs[0]).as<float>(), 210);  // executor_test.cc
}

TEST_F(KernelTunerTest, RunsOnPlausibleNumbers) {
  std::set<float> seen;
  const auto look = [&seen](const KernelArgs& k) {
    for (const TensorView& view : k.inputs) seen.insert(view.as<float>(), view.as<float>() + view.elements);
    std::fill_n(k.outputs[0].as<float>(), k.outputs[0].elements, 1e30F);
  };
  timed_.Add(registry_, "Mul", "slow", {.seconds = 3 * kMillisecond}, look);
  timed_.Add(registry_, "Mul", "fast", {.seconds = 2 * kMillisecond}, look);
  Chosen();
  EXPECT_GT(seen.size(), 8u);
  for (const float number : seen) {
    EXPECT_LE(std::fabs(number), 1) << number;
    EXPECT_GE(std::fabs(number), 1.0F / 64) << number;
  }
}

TEST_F(KernelTunerTest, TakesTheFirstOfThoseThatAreAsFast) {
  Add("first", {.seconds = 2.04 * kMillisecond});
  Add("second", {.seconds = 2 * kMillisecond});
  EXPECT_EQ(Chosen(), "first");
}

TEST_F(KernelTunerTest, DoesNotCountAFirstRun) {
  Add("first", {.seconds = 2 * kMillisecond, .first_seconds = 5 * kMillisecond});
  Add("second", {.seconds = 3 * kMillisecond, .first_seconds = 2.5 * kMillisecond});
  EXPECT_EQ(Chosen(), "first");
}

TEST_F(KernelTunerTest, RunsALongKernelFewTimes) {
  Add("slow", {.seconds = 0.41});
  Add("fast", {.seconds = 0.2});
  EXPECT_EQ(Chosen(), "fast");
  EXPECT_EQ(timed_.Runs("slow"), 1);
  EXPECT_EQ(timed_.Runs("fast"), 1);
}

TEST_F(KernelTunerTest, AKernelThatIsMuchSlowerSoonDropsOut) {
  Add("a", {.seconds = 2 * kMillisecond});
  Add("b", {.seconds = 2.6 * kMillisecond});
  Add("c", {.seconds = 7 * kMillisecond});
  Add("d", {.seconds = 1.9 * kMillisecond});
  EXPECT_EQ(Chosen(), "d");
  EXPECT_EQ(timed_.Runs("c"), 1);
  EXPECT_EQ(timed_.Runs("b"), 2);
  EXPECT_GT(timed_.Runs("a"), 3);
}

TEST_F(KernelTunerTest, ASiteOfMicrosecondsGetsTheFirst) {
  Add("first", {.seconds = 20e-6, .first_seconds = 200e-6});
  Add("second", {.seconds = 1e-6});
  KernelTuner tuner = NewTuner({.path = folder_ / "choices"});
  EXPECT_EQ(Chosen(tuner), "first");
  EXPECT_EQ(timed_.Runs("second"), 0);
  EXPECT_EQ(tuner.Count().timed, 0);
  // Later runs do not try again, whose clock might say otherwise.
  timed_.ForgetRuns();
  timed_.SetSpeed("first", 1);
  EXPECT_EQ(Chosen({.path = folder_ / "choices"}), "first");
  EXPECT_EQ(timed_.AllRuns(), 0);
}

TEST_F(KernelTunerTest, LeavesOutWhatRefusesOrFailsOrIsReference) {
  Add("fails", {.seconds = 0.1 * kMillisecond, .failure = "no luck"});
  Add("refuses", {.seconds = 0.1 * kMillisecond, .accepts = [](const KernelSite&) { return false; }});
  AddSlowAndFast();
  Add("reference", {.seconds = 0.1 * kMillisecond, .is_reference = true});
  EXPECT_EQ(Chosen(), "fast");
  EXPECT_EQ(timed_.Runs("reference"), 0);
}

TEST_F(KernelTunerTest, TakesTheListsOrderWhereAllFail) {
  Add("a", {.seconds = kMillisecond, .failure = "no luck"});
  Add("b", {.seconds = kMillisecond, .failure = "no luck"});
  EXPECT_EQ(Chosen(), "a");
}

TEST_F(KernelTunerTest, AKernelWithoutAnotherIsNotTimed) {
  Add("only", {.seconds = kMillisecond});
  Add("reference", {.seconds = kMillisecond, .is_reference = true});
  EXPECT_EQ(Chosen(), "only");
  EXPECT_EQ(timed_.AllRuns(), 0);
}

TEST_F(KernelTunerTest, TheNextRunReadsWhatThisOneChose) {
  AddSlowAndFast();
  const std::string path = folder_ / "folder/choices";
  EXPECT_EQ(Chosen({.path = path}), "fast");
  EXPECT_EQ(AllSaid(), "kernels: 1 site timed, 1 differs from the fixed order; " + path + "\n");
  said_.clear();
  timed_.ForgetRuns();
  timed_.SetSpeed("slow", kMillisecond);
  KernelTuner next = NewTuner({.path = path});
  EXPECT_EQ(Chosen(next), "fast");
  EXPECT_EQ(timed_.AllRuns(), 0);
  EXPECT_EQ(AllSaid(), "");
  EXPECT_EQ(next.Describe(), "1 site timed before, 1 differs from the fixed order; " + path);
  KernelTuner forced = NewTuner({.path = path, .force = true});
  EXPECT_EQ(Chosen(forced), "slow");
  EXPECT_EQ(forced.Count().timed, 1);
  timed_.ForgetRuns();
  EXPECT_EQ(Chosen(forced), "slow");  // once a run
  EXPECT_EQ(timed_.AllRuns(), 0);
  EXPECT_EQ(Chosen({.path = path}), "slow");
}

TEST_F(KernelTunerTest, AKernelOfTheFileThatIsNoMoreIsChosenAnew) {
  AddSlowAndFast();
  const std::string path = folder_ / "choices";
  EXPECT_EQ(Chosen({.path = path}), "fast");
  std::string text = testing::Contents(path);
  for (size_t at = 0; (at = text.find("fast")) != std::string::npos;) text.replace(at, 4, "gone");
  testing::Overwrite(path, text);
  timed_.ForgetRuns();
  EXPECT_EQ(Chosen({.path = path}), "fast");
  EXPECT_GT(timed_.AllRuns(), 0);
  EXPECT_EQ(testing::Contents(path).find("gone"), std::string::npos);
}

TEST_F(KernelTunerTest, GoesOnWithoutAFileThatCanBeWritten) {
  AddSlowAndFast();
  testing::Overwrite(folder_ / "file", "");
  const std::string path = folder_ / "file/choices";
  EXPECT_EQ(Chosen({.path = path}), "fast");
  ASSERT_EQ(said_.size(), 2u) << AllSaid();
  EXPECT_NE(said_[1].find("warning: the choice of kernels is not kept"), std::string::npos) << said_[1];
  EXPECT_NE(said_[1].find(path), std::string::npos) << said_[1];
  EXPECT_EQ(said_[1].find('\n'), std::string::npos);
}

TEST_F(KernelTunerTest, TellsOfADamagedFileOnce) {
  AddSlowAndFast();
  const std::string path = folder_ / "choices";
  testing::Overwrite(path, "something\n");
  EXPECT_EQ(Chosen({.path = path}), "fast");
  ASSERT_EQ(said_.size(), 2u) << AllSaid();
  EXPECT_EQ(said_[0].rfind("warning: " + path + ": line 1 is not 'machine: toy, 1 thread, test'", 0), 0u)
      << said_[0];
  said_.clear();
  EXPECT_EQ(Chosen({.path = path}), "fast");
  EXPECT_EQ(AllSaid(), "");
}

// What was not timed for want of time keeps its kernel, or else the second run would compute other bits.
TEST_F(KernelTunerTest, EndsWithItsTime) {
  AddSlowAndFast();
  EXPECT_EQ(Chosen({.path = folder_ / "choices", .most_seconds = 0}), "slow");
  EXPECT_LE(timed_.AllRuns(), 1);
  timed_.ForgetRuns();
  EXPECT_EQ(Chosen({.path = folder_ / "choices"}), "slow");
  EXPECT_EQ(timed_.AllRuns(), 0);
}

// Of two sites, the larger one is timed first.
TEST_F(KernelTunerTest, GivesItsTimeToTheLargestSites) {
  AddSlowAndFast();
  timed_.Add(registry_, "ColumnSum", "small.slow", {.seconds = 3 * kMillisecond});
  timed_.Add(registry_, "ColumnSum", "small.fast", {.seconds = 2 * kMillisecond});
  KernelRegistry sorted;  // before the toy's own kernel
  for (const char* op : {"Mul", "ColumnSum"})
    for (const KernelEntry& entry : registry_.For(op))
      if (entry.name.find("toy") == std::string::npos) sorted.Add(op, entry);
  for (const char* op : {"Sum", "Count", "SgdUpdate"}) sorted.Add(op, registry_.For(op)[0]);
  registry_ = sorted;
  KernelTuner tuner = NewTuner({.most_seconds = 10 * kMillisecond});
  const auto executor = NewExecutor(tuner);
  const std::vector<BoundNode>& nodes = Take(executor->Train(3))->nodes();
  EXPECT_EQ(nodes[0].kernel_name, "fast");
  EXPECT_EQ(nodes[3].kernel_name, "small.slow");
}

TEST_F(KernelTunerTest, ShowsProgressOfLongWork) {
  Add("slow", {.seconds = 1.5});
  Add("fast", {.seconds = 1});
  timed_.Add(registry_, "Sum", "other", {.seconds = 1.0});
  KernelTuner tuner = NewTuner({.path = folder_ / "choices"});
  NewExecutor(tuner);
  ASSERT_EQ(said_.size(), 2u) << AllSaid();
  EXPECT_EQ(said_[0], "timing kernels: 1 of 2 sites");
}

TEST_F(KernelTunerTest, ASmallerBatchRunsTheSameKernel) {
  AddSlowAndFast();
  KernelTuner tuner = NewTuner();
  const auto executor = NewExecutor(tuner);
  timed_.ForgetRuns();
  EXPECT_EQ(KernelOf(*Take(executor->Train(2))), "fast");
  EXPECT_EQ(KernelOf(*Take(executor->Eval(1))), "fast");
  EXPECT_EQ(timed_.AllRuns(), 0);  // the arena is in use
}

TEST_F(KernelTunerTest, ASmallerBatchThatTheKernelRefusesGetsTheFirst) {
  Add("slow", {.seconds = 3 * kMillisecond});
  Add("fast",
      {.seconds = 2 * kMillisecond, .accepts = [](const KernelSite& site) { return site.batch == 3; }});
  KernelTuner tuner = NewTuner();
  const auto executor = NewExecutor(tuner);
  EXPECT_EQ(KernelOf(*Take(executor->Train(3))), "fast");
  EXPECT_EQ(KernelOf(*Take(executor->Train(2))), "slow");
}

TEST_F(KernelTunerTest, AskedToEvaluateItTimesThatGraphToo) {
  AddSlowAndFast();
  plan_.eval.graph.nodes[0].attrs.Set("only", "here");  // another site than in training
  KernelTuner trains = NewTuner(), evaluates = NewTuner();
  EXPECT_EQ(KernelOf(*Take(NewExecutor(trains)->Eval(3))), "slow");
  EXPECT_EQ(KernelOf(*Take(NewExecutor(evaluates, /*evaluates=*/true)->Eval(3))), "fast");
  EXPECT_EQ(evaluates.Count().timed, 2);
}

}  // namespace
}  // namespace act
