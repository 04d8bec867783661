// Steps in bfloat16 on a card that the processor plays, against the processor's own kernels.
#include <cmath>

#include "runtime/train/trainer.h"
#include "tests/compiler/cuda_card.h"
#include "tests/compiler/random_epochs.h"
#include "tests/compiler/small_networks.h"
#include "tests/compiler/small_transformer.h"

namespace act {
namespace {

using testing_step::Take;

constexpr int64_t kBatch = 4;

Plan CompileInBFloat16(ImportResult model, const std::string& level) {
  CompileOptions options = testing_step::Checked(level, "adam");
  options.group_size = 64;
  options.compute = Compute::kBFloat16;
  return Take(Compile(std::move(model), options));
}

// Node by node, while recording, and replayed.
std::vector<double> Losses(Executor& executor) {
  const auto data = RandomBatch(InputSlots(executor.plan().train.graph), 5);
  TrainPosition position{.seed = 7};
  const Hyperparameters hyper{.lr = .01, .beta1 = .9, .beta2 = .99, .eps = 1e-6};
  return Take(Train(executor, *data, nullptr, {.steps = 4, .hyper = hyper}, position)).losses;
}

std::vector<double> OnTheProcessor(const Plan& plan) {
  const auto executor = Take(Executor::Create(plan, Take(LayOut(plan, kBatch)), TestDevice(),
                                              testing_step::CpuKernels(), {.threads = 1}));
  return Losses(*executor);
}

int64_t CountBFloat16(const Plan& plan) {
  int64_t count = 0;
  for (const Value& value : plan.train.graph.values) count += value.type.dtype == DType::kBFloat16;
  return count;
}

// Sums in another order round to another bfloat16 now and then, by 2^-8 of one number.
void ExpectSameLosses(const Plan& plan) {
  EXPECT_GT(CountBFloat16(plan), 10);
  CudaCard card;
  const std::vector<double> losses = Losses(*card.Open(plan, kBatch)), expected = OnTheProcessor(plan);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], .01 * std::fabs(expected[i])) << "step " << i;
  EXPECT_NE(losses.front(), losses.back());
}

TEST(CudaBFloat16Step, ConvolutionalNetworksTrainAsOnTheProcessor) {
  for (const unsigned seed : {1u, 3u})
    for (const char* level : {"L0", "L3"}) {
      SCOPED_TRACE(std::string(level) + ", seed " + std::to_string(seed));
      ExpectSameLosses(CompileInBFloat16(small_networks::Network(seed).Build(), level));
    }
}

TEST(CudaBFloat16Step, ATransformerTrainsAsOnTheProcessor) {
  for (const char* level : {"L0", "L3"}) {
    SCOPED_TRACE(level);
    small_transformer::Transformer model(Dim::Batch(), small_transformer::Kind::kGelu);
    model.Block("a");
    ExpectSameLosses(CompileInBFloat16(model.Build(), level));
  }
}

}  // namespace
}  // namespace act
