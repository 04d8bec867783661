// Whole steps on a card that the processor plays (tests/fake_cuda), by the card's own kernels: recorded
// steps against steps that run node by node, and many orders in which a card may run one.
#include "runtime/train/checkpoint.h"
#include "runtime/train/trainer.h"
#include "tests/compiler/cuda_card.h"
#include "tests/compiler/random_epochs.h"
#include "tests/compiler/small_networks.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using testing::Contents;
using testing::TemporaryFolder;
using testing_step::Take;
using testing_step::Text;

// An epoch has four micro-batches, the last one of two samples.
constexpr int64_t kBatch = 5, kSamples = 17;

Plan CompileAt(const std::string& level, unsigned seed, int64_t accumulate) {
  CompileOptions options = testing_step::Checked(level, "adam");
  options.group_size = 64;
  options.accumulate = accumulate;
  return Take(Compile(small_networks::Network(seed).Build(), options));
}

// Trains three epochs with a rate that changes each step. Returns the bytes of the checkpoint, and the
// losses.
std::string TrainOn(CudaCard& card, const Plan& plan) {
  const TemporaryFolder folder;
  const auto executor = card.Open(plan, kBatch);
  RandomEpochs data(InputSlots(plan.train.graph), kSamples);
  const TrainOptions options{.epochs = 3,
                             .hyper = {.lr = .05, .beta1 = .9, .beta2 = .99, .eps = 1e-6},
                             .schedule = Take(LearningRateSchedule::Parse("step,1,.9"))};
  TrainPosition position{.seed = 7};
  const TrainResult result = Take(Train(*executor, data, nullptr, options, position));
  EXPECT_EQ(Text(SaveCheckpoint(folder / "end", *executor, position, {})), "");
  std::string all = Contents(folder / "end");
  for (const double loss : result.losses) all += std::to_string(loss) + "\n";
  return all;
}

TEST(CudaStep, ARecordedStepHasTheBitsOfOneThatRunsNodeByNode) {
  for (const char* level : {"L0", "L3", "L4", "L5"})
    for (const int64_t accumulate : {1, 3}) {
      SCOPED_TRACE(std::string(level) + ", micro-batches: " + std::to_string(accumulate));
      const Plan plan = CompileAt(level, 3, accumulate);
      CudaCard recorded, each({.profile = true});
      const std::string bytes = TrainOn(recorded, plan);
      EXPECT_TRUE(bytes == TrainOn(each, plan));
      // Another seed of the order in which the card runs what is ready.
      CudaCard other;
      other.controls().Seed(1234);
      EXPECT_TRUE(bytes == TrainOn(other, plan));
    }
}

// Three steps: node by node, while recording, and replayed.
std::vector<double> ThreeSteps(Executor& executor) {
  const auto data = RandomBatch(InputSlots(executor.plan().train.graph), 5);
  TrainPosition position{.seed = 7};
  return Take(Train(executor, *data, nullptr, {.steps = 3, .hyper = {.lr = 0, .eps = 1}}, position)).losses;
}

TEST(CudaStep, ARunAllocatesNothingAfterItsFirstSteps) {
  const Plan plan = CompileAt("L3", 3, 1);
  CudaCard card;
  const auto executor = card.Open(plan, kBatch);
  const auto data = RandomBatch(InputSlots(plan.train.graph), 5);
  TrainPosition position{.seed = 7};
  std::vector<int64_t> beside;
  for (const int64_t steps : {3, 40}) {
    Take(Train(*executor, *data, nullptr, {.steps = steps, .hyper = {.lr = .01, .eps = 1}}, position));
    const Device::BytesBeside measured = Take(executor->device().MeasureBeside());
    beside.insert(beside.end(), {measured.device, measured.host});
  }
  EXPECT_EQ(beside[0], beside[2]);
  EXPECT_EQ(beside[1], beside[3]);
}

TEST(CudaStep, AThousandOrdersGiveTheSameBits) {
  const Plan plan = CompileAt("L3", 1, 1);
  CudaCard card;
  const auto executor = card.Open(plan, 2);
  const std::vector<double> expected = ThreeSteps(*executor);
  for (uint64_t seed = 2; seed <= 1000; ++seed) {
    card.controls().Seed(seed);
    ASSERT_EQ(ThreeSteps(*executor), expected) << "order of seed " << seed;
  }
}

}  // namespace
}  // namespace act
