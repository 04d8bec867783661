// Steps of sequence models on the card of tests/unit/test_card.h, against the processor's own kernels: attention with
// dropout, rotary embeddings, codes before it.
#include <cmath>

#include "runtime/train/trainer.h"
#include "tests/compiler/cuda_card.h"
#include "tests/compiler/random_epochs.h"
#include "tests/compiler/small_transformer.h"

namespace act {
namespace {

using testing_step::Take;

constexpr int64_t kBatch = 3;

// Node by node, while recording, and replayed.
std::vector<double> Losses(Executor& executor) {
  const auto data = RandomBatch(InputSlots(executor.plan().train.graph), 5);
  TrainPosition position{.seed = 7};
  const Hyperparameters hyper{.lr = .01, .beta1 = .9, .beta2 = .99, .eps = 1e-6};
  return Take(Train(executor, *data, nullptr, {.steps = 4, .hyper = hyper}, position)).losses;
}

// Some processors round the operands of the products that a plan lets them round, and so have other gradients than a
// card, which does not: with AMX, losses of L3 and L5 differ by up to 1.7 % after three updates. Here no product may be
// rounded.
void RoundNothing(Graph& graph) {
  for (Node& node : graph.nodes)
    if (node.attrs.Int("may_round") != 0) node.attrs.Set("may_round", int64_t{0});
}

// How far a loss may be from the processor's, relative to it. A forward pass differs by the order of its sums alone,
// and so does all of L0. From the first gradient on, codes may take a number that differs in its last bit to the next
// level. One such number moved the fourth loss by 2e-4, on an H100 and where the rate was changed by 1e-5 of itself.
double Tolerance(const std::string& level, size_t step) {
  if (step == 0) return 1e-5;
  return level == "L0" ? 1e-4 : 2e-3;
}

TEST(CudaSequenceStep, TransformersTrainAsOnTheProcessor) {
  for (const small_transformer::Kind kind : {small_transformer::Kind::kGelu, small_transformer::Kind::kGated})
    for (const char* level : {"L0", "L3", "L5"}) {
      SCOPED_TRACE(std::string(level) + ", kind " + std::to_string(static_cast<int>(kind)));
      small_transformer::Transformer model(Dim::Batch(), kind);
      model.Block("a");
      model.Block("b");
      CompileOptions options = testing_step::Checked(level, "adam");
      options.group_size = 64;
      Plan plan = Take(Compile(model.Build(), options));
      RoundNothing(plan.train.graph);
      CudaCard card;
      const auto on_card = card.Open(plan, kBatch);
      const auto on_processor = Take(Executor::Create(plan, Take(LayOut(plan, kBatch)), TestDevice(),
                                                      testing_step::CpuKernels(), {.threads = 1}));
      const std::vector<double> losses = Losses(*on_card), expected = Losses(*on_processor);
      ASSERT_EQ(losses.size(), expected.size());
      for (size_t i = 0; i < losses.size(); ++i)
        EXPECT_NEAR(losses[i], expected[i], Tolerance(level, i) * std::fabs(expected[i])) << "step " << i;
      EXPECT_NE(losses.front(), losses.back());
    }
}

}  // namespace
}  // namespace act
