// Random small networks, taken through the whole compiler at every level.
#include <cmath>

#include "compiler/ir/dump.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::Take;

constexpr unsigned kNetworks = 24;
constexpr int64_t kBatch = 5;

class RandomNetwork : public ::testing::TestWithParam<unsigned> {};

// Gradients are outputs, so that an error anywhere in a step shows in them.
TEST_P(RandomNetwork, RunsAtEveryLevelInItsPlannedMemory) {
  for (const char* level : {"L0", "L1", "L2", "L3", "L4", "L5"}) {
    SCOPED_TRACE(level);
    Network network(GetParam());
    const ImportResult model = network.Build();
    // Groups of 64, so that tensors of this size have codes.
    CompileOptions options = testing_step::Checked(level, "none");
    options.group_size = 64;
    const Plan plan = Take(Compile(model, options));
    for (const TargetKind target : kTargets)
      ASSERT_EQ(testing_step::Text(ValidateLayout(plan, Take(LayOut(plan, kBatch, target)))), "");
    const auto inputs = network.Inputs(plan.train.graph, kBatch);
    const auto outputs = Take(testing_step::RunStep(plan, testing_step::CpuKernels(), inputs,
                                                    {.batch = kBatch, .check_memory = true}));
    for (size_t i = 0; i < outputs.size(); ++i)
      for (float v : outputs[i])
        ASSERT_TRUE(std::isfinite(v)) << plan.train.graph.value(plan.train.graph.outputs[i]).name;
  }
}

TEST_P(RandomNetwork, HasTheGradientsOfTheReferenceKernelsAtL0) {
  Network network(GetParam());
  const Plan plan = Take(Compile(network.Build(), testing_step::Checked("L0", "none")));
  const auto inputs = network.Inputs(plan.train.graph, kBatch);
  const auto fast = Take(testing_step::RunStep(plan, testing_step::CpuKernels(), inputs, {.batch = kBatch}));
  const auto slow =
      Take(testing_step::RunStep(plan, testing_step::ReferenceKernels(), inputs, {.batch = kBatch}));
  ASSERT_EQ(fast.size(), slow.size());
  double largest = 0;
  for (size_t i = 1; i < slow.size(); ++i)
    for (float g : slow[i]) largest = std::fmax(largest, std::fabs(g));
  for (size_t i = 0; i < fast.size(); ++i) {
    // The gradient of a bias before a batch normalization is zero. Both sides compute
    // rounding errors of it.
    double scale = .1 * largest, worst = 0;
    for (size_t k = 0; k < fast[i].size(); ++k) {
      scale = std::fmax(scale, std::fabs(slow[i][k]));
      worst = std::fmax(worst, std::fabs(static_cast<double>(fast[i][k]) - slow[i][k]));
    }
    // Float32 through up to ten layers, some normalized over as few as five elements. Each of
    // these multiplies the rounding error so far (6e-8) by its condition number. A wrong term is
    // off by 1e-2 and more.
    EXPECT_LE(worst / scale, 1e-3) << plan.train.graph.value(plan.train.graph.outputs[i]).name;
  }
}

TEST_P(RandomNetwork, StoresNoMoreAtAHigherLevel) {
  int64_t before = kTooLarge;
  for (const char* level : {"L0", "L1", "L2", "L3"}) {
    CompileOptions options = testing_step::Checked(level, "sgd");
    options.group_size = 64;
    const Plan plan = Take(Compile(Network(GetParam()).Build(), options));
    int64_t stored = 0;
    for (const SavedEdge& edge : plan.edges) stored += edge.bytes.At(kBatch);
    EXPECT_LE(stored, before) << level;
    before = stored;
  }
}

// Otherwise the peak that a report promises for a batch would not be that of a plan made
// for another batch.
TEST_P(RandomNetwork, PlanDoesNotDependOnTheReportsBatch) {
  CompileOptions options = testing_step::Checked("L3", "sgd");
  options.batch = 1;
  const Plan small = Take(Compile(Network(GetParam()).Build(), options));
  options.batch = 1000;
  const Plan large = Take(Compile(Network(GetParam()).Build(), options));
  EXPECT_EQ(Dump(small.train.graph), Dump(large.train.graph));
  EXPECT_EQ(small.train.storage_of, large.train.storage_of);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomNetwork, ::testing::Range(0u, kNetworks));

}  // namespace
}  // namespace act
