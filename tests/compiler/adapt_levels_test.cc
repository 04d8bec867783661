// Levels that change while a plan trains: what is measured, and what a step
// computes after a change.
#include "runtime/levels/adapt_levels.h"
#include "kernels/site/dereference.h"
#include "tests/unit/test_device.h"

#include <cstring>
#include <limits>

#include "runtime/measure/gradient_variance.h"
#include "runtime/measure/switchable_codes.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::Take;

constexpr int64_t kBatch = 6;

Plan CompileAt(const std::string& level, unsigned seed, double bits = 0) {
  CompileOptions options = testing_step::Checked(level, "sgd");
  options.group_size = 64;  // so that tensors of this size have codes
  options.bits = bits;
  return Take(Compile(Network(seed).Build(), options));
}

std::unique_ptr<Executor> Open(const Plan& plan) {
  omp_set_num_threads(1);
  return Take(Executor::Create(plan, Take(LayOut(plan, kBatch)), TestDevice(), testing_step::CpuKernels(),
                               {.threads = 1, .check_memory = true}));
}

StepState StateAt(uint64_t step) {
  Hyperparameters hyper;
  hyper.lr = .01;
  hyper.momentum = .9;
  return {.seed = 7, .step = step, .update = {.hyper = hyper, .updates = step}};
}

// All bytes that persist from one step to the next.
std::vector<std::byte> Persistents(const Executor& executor) {
  std::vector<std::byte> bytes;
  for (const PersistentTensor& tensor : executor.persistents()) {
    const auto* data = tensor.view.as<std::byte>();
    bytes.insert(bytes.end(), data, data + tensor.view.bytes);
  }
  return bytes;
}

void RunStep(Executor& executor, BatchSource& data, uint64_t step) {
  ASSERT_EQ(data.Next(kBatch), kBatch);
  BoundGraph* const graph = Take(executor.Train(kBatch));
  llvm::cantFail(executor.BeginStep());
  llvm::cantFail(FillInputs(*graph, data));
  ASSERT_EQ(testing_step::Text(executor.Run(*graph, StateAt(step))), "");
}

// The other way of measuring also computes the exact gradient, in a larger arena. The two ways
// agree where codes are fine. The error of a coarse code is also multiplied by the errors of other
// codes, which are exact in the other way.
TEST(CodeSensitivity, IsTheVarianceOfEachEdgeAlone) {
  constexpr int64_t kDraws = 60;
  for (const char* level : {"L2", "L3", "actnn-L2"}) {
    const Plan plan = CompileAt(level, 3);
    const auto executor = Open(plan);
    const auto data = RandomBatch(InputSlots(plan.train.graph), 5);
    ASSERT_EQ(data->Next(kBatch), kBatch);
    const std::vector<PlanCode> codes = CodesWithLevels(plan);
    ASSERT_GE(codes.size(), 2u);
    std::vector<int32_t> streams;
    for (const PlanCode& code : codes)
      for (const Node& node : plan.train.graph.nodes)
        for (size_t o = 0; o < node.outputs.size(); ++o)
          if (node.outputs[o] == plan.edges[code.edge].stored)
            streams.push_back(node.program.outputs[o].stream);
    CodeSensitivityMeter meter(*executor);
    std::vector<double> mean(codes.size(), 0);
    for (int64_t draw = 0; draw < kDraws; ++draw) {
      const auto measured = Take(meter.Measure(*executor, *Take(executor->Train(kBatch)), *data,
                                               StateAt(static_cast<uint64_t>(draw)), streams, 1, nullptr));
      ASSERT_TRUE(measured.has_value());
      for (size_t c = 0; c < codes.size(); ++c) mean[c] += measured->variance[c] / kDraws;
    }

    const SwitchablePlan switchable = Take(MakeCodesSwitchable(plan));
    const auto exact = Open(switchable.plan);
    const auto again = RandomBatch(InputSlots(plan.train.graph), 5);
    const GradientVariance all =
        Take(MeasureGradientVariance(*exact, switchable, *again, {.seed = 7}, {.repeats = kDraws}));
    double sum = 0, sum_exact = 0;
    for (size_t c = 0; c < codes.size(); ++c) {
      for (const EdgeVariance& edge : all.edges) {
        if (edge.edge != codes[c].edge) continue;
        // Each way draws sixty times. A few directions of the gradient make up most of an error.
        EXPECT_NEAR(mean[c], edge.estimate.variance, .5 * edge.estimate.variance)
            << level << " " << plan.edges[edge.edge].name;
        sum += mean[c];
        sum_exact += edge.estimate.variance;
      }
    }
    EXPECT_NEAR(sum, sum_exact, .2 * sum_exact) << level;
  }
}

TEST(CodeSensitivity, LeavesWhatLivesBetweenStepsAsItWas) {
  const Plan plan = CompileAt("L2", 3);
  const auto executor = Open(plan);
  const auto data = RandomBatch(InputSlots(plan.train.graph), 5);
  RunStep(*executor, *data, 0);
  const std::vector<std::byte> before = Persistents(*executor);
  LevelAdapter adapter(plan, 1, nullptr);
  const auto outcome = Take(adapter.Before(*executor, *data, kBatch, StateAt(1)));
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_EQ(adapter.history().size(), 1u);
  EXPECT_TRUE(Persistents(*executor) == before);
}

// After a change of levels, the executor computes what it would have computed with these
// levels from the start.
TEST(LevelAdapter, AStepBehindAMoveIsThatOfAPlanWithThoseLevels) {
  int moves = 0;
  for (const unsigned seed : {1u, 3u, 4u, 6u}) {
    for (const char* level : {"L2", "L3", "gact-L2.2", "gact-L3"}) {
      SCOPED_TRACE(std::string(level) + ", seed " + std::to_string(seed));
      const Plan plan = CompileAt(level, seed);
      LevelAdapter adapter(plan, 1, nullptr);
      const auto executor = Open(plan);
      const int64_t promised = executor->layout().train.peak_bytes;
      const auto data = RandomBatch(InputSlots(plan.train.graph), 5);
      RunStep(*executor, *data, 0);
      Take(adapter.Before(*executor, *data, kBatch, StateAt(1)));
      const Adaptation& done = adapter.history().back();
      EXPECT_LE(done.peak_bytes, promised);
      EXPECT_EQ(executor->arena().high_water_bytes(), promised);
      if (done.moved == 0) continue;
      ++moves;
      EXPECT_LT(done.variance_after, done.variance_before);
      int64_t bytes = 0;
      for (const PlanCode& code : CodesWithLevels(plan)) bytes += plan.edges[code.edge].bytes.At(kBatch);
      EXPECT_LE(done.bytes, bytes);

      const auto adapted = Take(WithLevels(plan, adapter.levels()));
      ASSERT_TRUE(adapted.has_value());
      const auto fresh = Open(*adapted);
      for (size_t i = 0; i < fresh->persistents().size(); ++i) {
        const TensorView &to = fresh->persistents()[i].view, &from = executor->persistents()[i].view;
        ASSERT_EQ(to.bytes, from.bytes);
        if (to.bytes > 0) std::memcpy(to.as<void>(), from.as<void>(), static_cast<size_t>(to.bytes));
      }
      RunStep(*executor, *data, 1);
      RunStep(*fresh, *data, 1);
      EXPECT_TRUE(Persistents(*executor) == Persistents(*fresh));
    }
  }
  EXPECT_GE(moves, 6) << "too few to tell anything";
}

// An executor refuses another form of the plan that needs more memory or has another layout.
// Nothing has changed after a refusal.
TEST(LevelAdapter, AnExecutorTakesNoFormAboveItsPromise) {
  const Plan plan = CompileAt("L2", 3);
  Plan finest = plan;  // the same plan except for its levels
  for (const PlanCode& code : CodesWithLevels(plan))
    SetCodec(finest, code.edge, LevelChoices(code.coded.codec, 0).back());
  const auto executor = Open(plan), untouched = Open(plan);
  const auto data = RandomBatch(InputSlots(plan.train.graph), 5);
  ASSERT_GT(Take(LayOut(finest, kBatch)).train.peak_bytes, executor->promised_peak_bytes());
  EXPECT_NE(testing_step::Text(executor->Rebind(finest, Take(LayOut(finest, kBatch)))), "");
  EXPECT_NE(testing_step::Text(executor->Rebind(plan, Take(LayOut(plan, kBatch - 1)))), "");
  EXPECT_EQ(executor->layout().batch, kBatch);
  EXPECT_EQ(testing_step::Text(executor->Rebind(plan, Take(LayOut(plan, kBatch)))), "");
  RunStep(*executor, *data, 0);
  RunStep(*untouched, *data, 0);
  EXPECT_TRUE(Persistents(*executor) == Persistents(*untouched));
}

// Host memory has a limit of its own. Levels that keep to the arena's peak alone are refused.
TEST(LevelAdapter, TakesNoLevelsAboveThePromiseOfTheHost) {
  int seen = 0;
  for (const unsigned seed : {1u, 3u, 4u, 6u}) {
    const Plan plan = CompileAt("gact-L3", seed);
    const auto executor = Open(plan);
    for (const PlanCode& code : CodesWithLevels(plan)) {
      Plan finer = plan;
      SetCodec(finer, code.edge, LevelChoices(code.coded.codec).back());
      const MemoryLayout layout = Take(LayOut(finer, kBatch));
      if (layout.train.peak_bytes > executor->promised_peak_bytes() ||
          layout.train.host_peak_bytes <= executor->promised_host_bytes())
        continue;
      ++seen;
      LevelAdapter adapter(plan, 1, nullptr);
      EXPECT_FALSE(Take(adapter.Resume(*executor, finer, LevelsOf(plan, finer))));
    }
  }
  EXPECT_GE(seen, 2) << "too few to tell anything";
}

TEST(LevelAdapter, RefusesLevelsThatNoCodeCanHave) {
  const Plan plan = CompileAt("L3", 3);
  EXPECT_FALSE(Take(WithLevels(CompileAt("L2", 3), LevelsOf(plan, plan))).has_value()) << "another plan";
  const CodeLevels good = LevelsOf(plan, plan);
  EXPECT_TRUE(Take(WithLevels(plan, good)).has_value());
  const size_t edge = CodesWithLevels(plan).front().edge;
  for (const int64_t count : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{257}, int64_t{1} << 40,
                              std::numeric_limits<int64_t>::min()}) {
    for (const size_t which : {size_t{0}, size_t{1}}) {
      if (which == 1 && count == 0) continue;  // codes of one range may have no levels below zero
      CodeLevels bad = good;
      bad.counts[2 * edge + which] = count;
      auto plan_of_bad = WithLevels(plan, bad);
      ASSERT_FALSE(static_cast<bool>(plan_of_bad)) << count;
      EXPECT_NE(testing_step::Text(plan_of_bad.takeError()).find(plan.edges[edge].name), std::string::npos);
    }
  }
  CodeLevels short_of_one = good;
  short_of_one.counts.resize(good.counts.size() - 2);
  EXPECT_NE(testing_step::Text(WithLevels(plan, short_of_one).takeError()), "");
}

TEST(LevelAdapter, NeedsCodesWithLevels) {
  const Plan plan = CompileAt("L0", 3);
  EXPECT_NE(testing_step::Text(LevelAdapter(plan, 1, nullptr).CheckPlan()), "");
}

}  // namespace
}  // namespace act
