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

// The mean square of a product, or of several, with weights that are large enough for state and codes in few bits.
ImportResult LargeProduct(const std::vector<std::string>& weights = {"w"}) {
  Graph graph;
  GraphBuilder b(graph);
  ValueId y = b.Input("x", {DType::kFloat32, {Dim::Batch(), 64}}, ValueKind::kInput);
  const float scale = weights.size() == 1 ? 1 : .25F;  // so that several do not diverge
  for (const std::string& name : weights) {
    const TensorType type{DType::kFloat32, {64, name == weights.back() ? 96 : 64}};
    std::vector<float> values(static_cast<size_t>(type.Elements().fixed));
    for (size_t i = 0; i < values.size(); ++i) values[i] = scale * (static_cast<float>(i % 7) / 8 - .4f);
    const ValueId w = b.Input(name, type, ValueKind::kParameter, testing_step::HostFloats(values));
    y = Take(b.Add1("MatMul", {y, w}, {}, "product"));
  }
  graph.outputs = {Take(b.Add1("ReduceMean", {Take(b.Add1("Square", {y}))}, Over({0, 1}, false), "loss"))};
  return testing_step::ModelOf(std::move(graph));
}

// The losses of five steps, up to `tolerance` of each.
void ExpectTrainsAsOnTheProcessor(const Plan& plan, double tolerance) {
  CudaCard card;
  const auto on_card = card.Open(plan, kBatch);
  const auto on_processor = Take(Executor::Create(plan, Take(LayOut(plan, kBatch)), TestDevice(),
                                                  testing_step::CpuKernels(), {.threads = 1}));
  const auto losses = [](Executor& executor) {
    const auto data = RandomBatch(InputSlots(executor.plan().train.graph), 5);
    TrainPosition position{.seed = 7};
    const Hyperparameters hyper{.lr = .01, .momentum = .9, .beta1 = .9, .beta2 = .99, .eps = 1e-6};
    return Take(Train(executor, *data, nullptr, {.steps = 5, .hyper = hyper}, position)).losses;
  };
  const std::vector<double> got = losses(*on_card), expected = losses(*on_processor);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::fabs(expected[i])) << "step " << i;
  EXPECT_NE(expected.front(), expected.back());
}

TEST(CudaStep, StateInFewBitsTrainsAsOnTheProcessor) {
  for (const char* optimizer : {"sgd", "adamw", "lamb"})
    for (const StateFormat state : {StateFormat::kBFloat16, StateFormat::k8Bit}) {
      SCOPED_TRACE(std::string(optimizer) + ", form " + std::to_string(static_cast<int>(state)));
      CompileOptions options = testing_step::Checked("L0", optimizer);
      options.state = state;
      const Plan plan = Take(Compile(LargeProduct(), options));
      const auto is_update = [](const Node& node) { return node.op.rfind("Quantized", 0) == 0; };
      EXPECT_EQ(std::count_if(plan.train.graph.nodes.begin(), plan.train.graph.nodes.end(), is_update), 1);
      // Sums of the product in another order; a code may then round the other way.
      ExpectTrainsAsOnTheProcessor(plan, 1e-4);
    }
}

TEST(CudaStep, FrozenWeightsInFewBitsTrainAsOnTheProcessor) {
  for (const Compute compute : {Compute::kFloat32, Compute::kBFloat16})
    for (const Codec& codec : {Codec::Cast(kBFloat16), Codec::Uniform(8, 256, Rounding::kNearest),
                               Codec::Uniform(4, 64, Rounding::kNearest)}) {
      SCOPED_TRACE(std::string(ToString(compute)) + ", " + ToString(codec));
      CompileOptions options = testing_step::Checked("L3", "sgd");
      options.compute = compute;
      options.round_products = false;
      options.frozen_weights = codec;
      ImportResult model = LargeProduct({"first", "frozen", "last"});
      model.trainable.erase(model.trainable.begin() + 1);
      // Sums in another order; in bfloat16 a result may then round the other way.
      ExpectTrainsAsOnTheProcessor(Take(Compile(std::move(model), options)),
                                   compute == Compute::kFloat32 ? 1e-4 : 4e-3);
    }
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
