// --host-limit on a card that the processor plays (tests/fake_cuda): a step whose codes wait on the host takes the
// memory that was planned, and trains to the numbers of the step without.
#include <limits>
#include <map>

#include "passes/pipeline/memory_limit.h"
#include "runtime/data/safetensors.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/trainer.h"
#include "tests/compiler/cuda_card.h"
#include "tests/compiler/random_epochs.h"
#include "tests/compiler/small_networks.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using testing::TemporaryFolder;
using testing_step::Take;
using testing_step::Text;

// No loop over samples cuts so small a batch, and loops would change the order of sums.
constexpr int64_t kBatch = 8, kSamples = 13;
constexpr int64_t kHostLimit = 1 << 18;

// Convolutions, BatchNorms and ReLUs of images [N, 16, 16, 8]: most bytes at the peak are codes.
ImportResult Stack() {
  Graph graph;
  GraphBuilder b(graph);
  const auto weight = [&](const std::string& name, const Dims& dims, float of,
                          ValueKind kind = ValueKind::kParameter) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> values(static_cast<size_t>(type.Elements().fixed));
    for (size_t i = 0; i < values.size(); ++i) values[i] = of + static_cast<float>(i % 5) / 8;
    return b.Input(name, type, kind, testing_step::HostFloats(values));
  };
  ValueId x = b.Input("image", {DType::kFloat32, {Dim::Batch(), 16, 16, 8}}, ValueKind::kInput);
  for (int layer = 0; layer < 8; ++layer) {
    const std::string name = "l" + std::to_string(layer);
    x = Take(
        b.Add1("Conv", {x, weight(name + ".w", {8, 8, 1, 1}, -.2f)}, small_networks::Window(1, 1, 0), name));
    x = Take(b.Add1("BatchNorm",
                    {x, weight(name + ".gamma", {8}, 1), weight(name + ".beta", {8}, -.1f),
                     weight(name + ".mean", {8}, 0, ValueKind::kBuffer),
                     weight(name + ".var", {8}, 1, ValueKind::kBuffer)},
                    {}, name + ".bn"));
    x = Take(b.Add1("Relu", {x}, {}, name + ".relu"));
  }
  graph.outputs = {
      Take(b.Add1("ReduceMean", {Take(b.Add1("Square", {x}))}, Over({0, 1, 2, 3}, false), "loss"))};
  return testing_step::ModelOf(std::move(graph));
}

CompileOptions OnCard() {
  CompileOptions options = testing_step::Checked("L0", "adam");
  options.batch = kBatch;
  options.group_size = 64;
  options.workspace_limit = 1024;
  options.target = TargetKind::kCuda;
  return options;
}

Plan CompileStep(const ImportResult& model, const RankedStep& step) {
  CompileOptions options = OnCard();
  step.SetIn(options);
  return Take(Compile(model, options));
}

// Every number after two epochs, by name, and the losses.
std::map<std::string, std::string> Trained(const Plan& plan) {
  CudaCard card;
  const auto executor = card.Open(plan, kBatch);
  RandomEpochs data(InputSlots(plan.train.graph), kSamples);
  const TrainOptions options{.epochs = 2, .hyper = {.lr = .05, .beta1 = .9, .beta2 = .99, .eps = 1e-6}};
  TrainPosition position{.seed = 7};
  std::map<std::string, std::string> numbers;
  for (const double loss : Take(Train(*executor, data, nullptr, options, position)).losses)
    numbers["losses"] += std::to_string(loss) + " ";
  const TemporaryFolder folder;
  EXPECT_EQ(Text(SaveCheckpoint(folder / "end", *executor, position, {})), "");
  const Safetensors end = Take(Safetensors::Open(folder / "end"));
  for (const auto& [name, view] : end.tensors())
    numbers[name] = std::string(reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.bytes));
  numbers.erase("kernels");  // which ran
  EXPECT_EQ(executor->arena().high_water_bytes(), executor->promised_peak_bytes());
  EXPECT_EQ(executor->host_arena().high_water_bytes(), executor->promised_host_bytes());
  return numbers;
}

TEST(CudaMemoryLimit, CodesOnTheHostFitAndChangeNoNumber) {
  const ImportResult model = Stack();
  RankedSteps keeping(model, OnCard()), swapping(model, OnCard(), {.host_limit = kHostLimit});
  const int64_t enough = Take(keeping.Choose(std::numeric_limits<int64_t>::max())).chosen.peak_bytes;
  int64_t last_swapped = 0;
  int swapped_steps = 0;
  for (int part = 40; part > 4; --part) {
    const int64_t limit = enough * part / 40;
    llvm::Expected<StepChoice> choice = swapping.Choose(limit);
    if (!choice) {
      llvm::consumeError(choice.takeError());
      break;
    }
    const RankedStep& chosen = choice->chosen;
    if (chosen.host_limit == 0) continue;
    SCOPED_TRACE(chosen.Name());
    EXPECT_LE(chosen.peak_bytes, limit);
    EXPECT_GT(chosen.host_bytes, 0);
    EXPECT_LE(chosen.host_bytes, kHostLimit);
    if (chosen.swapped == last_swapped) continue;
    last_swapped = chosen.swapped;
    RankedStep without = chosen;
    without.host_limit = 0;
    const Plan swaps = CompileStep(model, chosen), keeps = CompileStep(model, without);
    EXPECT_GT(Take(LayOut(keeps, kBatch, TargetKind::kCuda)).arena_bytes, limit) << "it need not swap";
    EXPECT_EQ(Take(LayOut(swaps, kBatch, TargetKind::kCuda)).arena_bytes, chosen.peak_bytes);
    EXPECT_EQ(Take(LayOut(swaps, kBatch, TargetKind::kCuda)).host_bytes, chosen.host_bytes);
    if (++swapped_steps > 2) continue;  // training takes the time
    EXPECT_TRUE(Trained(swaps) == Trained(keeps));
  }
  EXPECT_GE(swapped_steps, 3);
}

TEST(CudaMemoryLimit, OneCodeFewerDoesNotFit) {
  const ImportResult model = Stack();
  RankedSteps steps(model, OnCard(), {.host_limit = kHostLimit});
  const int64_t enough = Take(steps.Choose(std::numeric_limits<int64_t>::max())).chosen.peak_bytes;
  int seen = 0;
  for (int part = 99; part > 9; --part) {
    const int64_t limit = enough * part / 100;
    llvm::Expected<StepChoice> choice = steps.Choose(limit);
    if (!choice) {
      llvm::consumeError(choice.takeError());
      continue;
    }
    if (choice->chosen.swapped < 2) continue;
    ++seen;
    RankedStep fewer = choice->chosen;
    --fewer.swapped;
    EXPECT_GT(Take(LayOut(CompileStep(model, fewer), kBatch, TargetKind::kCuda)).arena_bytes, limit)
        << choice->chosen.Name();
  }
  EXPECT_GE(seen, 2);
}

// A limit of the host's memory that not all codes meet.
TEST(CudaMemoryLimit, TheHostHoldsNoMoreThanItsLimit) {
  const ImportResult model = Stack();
  const auto on_host = [&](int64_t host_limit) {
    const RankedStep step{.level = "L3", .bits = 8, .host_limit = host_limit};
    return Take(LayOut(CompileStep(model, step), kBatch, TargetKind::kCuda)).host_bytes;
  };
  const int64_t all = on_host(std::numeric_limits<int64_t>::max());
  for (const int64_t limit : {all - 1, all / 2, all / 5}) {
    const int64_t bytes = on_host(limit);
    EXPECT_GT(bytes, 0);
    EXPECT_LE(bytes, limit);
  }
  EXPECT_EQ(on_host(all), all);
}

TEST(CudaMemoryLimit, WhatTheHostCouldHoldIsNamed) {
  const ImportResult model = Stack();
  const auto refusal = [&](int64_t limit, int64_t host_limit) {
    llvm::Expected<StepChoice> choice =
        RankedSteps(model, OnCard(), {.host_limit = host_limit}).Choose(limit);
    return choice ? "" : Text(choice.takeError());
  };
  RankedSteps steps(model, OnCard());
  // The least limit, by a hundredth of the exact step's peak, that a step meets without the host.
  const int64_t unit = Take(steps.Choose(std::numeric_limits<int64_t>::max())).chosen.peak_bytes / 100;
  int64_t limit = 100 * unit;
  for (; limit > 0; limit -= unit) {
    llvm::Expected<StepChoice> choice = steps.Choose(limit);
    if (choice) continue;
    llvm::consumeError(choice.takeError());
    break;
  }
  const std::string error = refusal(limit, 0), before = "with --host-limit=";
  ASSERT_NE(error.find(before), std::string::npos) << error;
  ASSERT_NE(error.find("which fits"), std::string::npos) << error;
  EXPECT_EQ(refusal(limit, std::stoll(error.substr(error.find(before) + before.size()))), "");
}

}  // namespace
}  // namespace act
