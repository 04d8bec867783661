// All that a run does, on a device whose memory the host cannot see, beside the same on the
// processor.
#include "runtime/executor/device.h"

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/toolkit.h"
#include "kernels/reference/registry.h"
#include "runtime/data/safetensors.h"
#include "runtime/levels/adapt_levels.h"
#include "runtime/measure/gradient_variance.h"
#include "runtime/measure/switchable_codes.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/evaluate.h"
#include "runtime/train/trainer.h"
#include "tests/compiler/random_epochs.h"
#include "tests/compiler/small_networks.h"
#include "tests/unit/protected_device.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using testing::Contents;
using testing::TemporaryFolder;
using testing_step::Take;
using testing_step::Text;

// An epoch has two batches, the second of two samples.
constexpr int64_t kBatch = 5, kSamples = kBatch + 2;

Plan CompileAt(const std::string& level, unsigned seed) {
  CompileOptions options = testing_step::Checked(level, "adagrad");
  options.group_size = 64;
  return Take(Compile(small_networks::Network(seed).Build(), options));
}

// A device with its kernels.
struct Machine {
  Device& device;
  const KernelRegistry& kernels = testing_step::CpuKernels();
};

std::unique_ptr<Executor> Open(const Plan& plan, const Machine& machine, bool check_memory) {
  omp_set_num_threads(1);
  return Take(Executor::Create(plan, Take(LayOut(plan, kBatch, machine.device.target())), machine.device,
                               machine.kernels, {.threads = 1, .check_memory = check_memory}));
}

// The tensors of a file but the record of kernels, whose names differ from machine to machine.
std::string TensorsOf(const std::string& path) {
  const Safetensors file = Take(Safetensors::Open(path));
  std::string all;
  for (const auto& [name, tensor] : file.tensors())
    if (name != "kernels")
      all +=
          name + std::string(reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.bytes));
  return all;
}

// Trains, evaluates, adapts levels, saves and loads. Returns the bytes of all files and numbers.
std::string RunAll(const Plan& plan, const Machine& machine, bool check_memory) {
  const TemporaryFolder folder;
  const auto executor = Open(plan, machine, check_memory);
  const Hyperparameters hyper{.lr = .01, .eps = 1e-3, .initial_accumulator_value = .5};
  EXPECT_EQ(Text(StartOptimizerState(*executor, hyper)), "");
  RandomEpochs data(InputSlots(plan.train.graph), kSamples), eval_data(InputSlots(plan.eval.graph), kSamples);
  LevelAdapter adapter(plan, 2, nullptr);
  TrainOptions options{.epochs = 2, .hyper = hyper, .dump_step = folder / "dump", .between = &adapter};
  TrainPosition position{.seed = 7};
  const TrainResult result = Take(Train(*executor, data, &eval_data, options, position));
  EXPECT_EQ(result.losses.size(), 4u);
  EXPECT_EQ(Text(SaveCheckpoint(folder / "end", *executor, position, adapter.levels())), "");

  const auto resumed = Open(plan, machine, check_memory);
  TrainPosition read;
  EXPECT_EQ(Text(LoadCheckpoint(folder / "end", *resumed, read)), "");
  EXPECT_EQ(Text(SaveCheckpoint(folder / "again", *resumed, read, adapter.levels())), "");
  EXPECT_EQ(Contents(folder / "end"), Contents(folder / "again"));
  std::string all = TensorsOf(folder / "dump") + TensorsOf(folder / "end");
  for (const Evaluation& evaluation : result.evaluations)
    all += std::to_string(evaluation.loss) + " " + std::to_string(evaluation.accuracy.value_or(-1)) + "\n";
  return all;
}

TEST(Device, TheHostReachesItsMemoryThroughTheInterfaceAlone) {
  for (const unsigned seed : {1u, 3u}) {
    for (const char* level : {"L0", "L3", "L4", "gact-L3"}) {
      const Plan plan = CompileAt(level, seed);
      for (const bool check_memory : {false, true}) {
        SCOPED_TRACE(std::string(level) + ", seed " + std::to_string(seed) +
                     (check_memory ? ", --check-memory" : ""));
        ProtectedDevice device;
        EXPECT_TRUE(RunAll(plan, {device}, check_memory) == RunAll(plan, {TestDevice()}, check_memory));
      }
    }
  }
}

TEST(Device, MeasuresTheGradientsVarianceThroughTheInterface) {
  const SwitchablePlan codes = Take(MakeCodesSwitchable(CompileAt("L3", 3)));
  std::vector<std::string> reports;
  ProtectedDevice device;
  for (Device* each : std::initializer_list<Device*>{&device, &TestDevice()}) {
    const auto executor = Open(codes.plan, {*each}, false);
    const auto data = RandomBatch(InputSlots(codes.plan.train.graph), 5);
    const GradientVariance measured =
        Take(MeasureGradientVariance(*executor, codes, *data, {.seed = 7}, {.repeats = 3}));
    reports.push_back(GradientVarianceJson(codes.plan, measured, 7));
  }
  EXPECT_EQ(reports[0], reports[1]);
}

// A card without kernels of its own: the processor's reference kernels run in the order of its stream.
struct FakeCard {
  explicit FakeCard(const cuda::CudaOptions& options = {})
      : device(Take(cuda::CudaDevice::Open(Take(cuda::LoadToolkit("fake")), options))) {
    RegisterReferenceKernels(reference);
    cuda::RegisterCudaSwap(kernels, device->context());
    cuda::RegisterCudaHost(kernels, device->context(), reference);
  }
  KernelRegistry reference;
  std::unique_ptr<cuda::CudaDevice> device;
  KernelRegistry kernels;
};

// The processor with a card's layout: whether levels may move depends on the peak.
struct LaidOutForACard : CpuDevice {
  TargetKind target() const override { return TargetKind::kCuda; }
};

TEST(Device, ACardComputesWhatTheProcessorDoesStepByStepRecordedAndMeasured) {
  for (const char* level : {"L0", "L3", "L4", "gact-L3"}) {
    const Plan plan = CompileAt(level, 3);
    for (const bool check_memory : {false, true}) {
      SCOPED_TRACE(std::string(level) + (check_memory ? ", --check-memory" : ""));
      FakeCard card;
      LaidOutForACard processor;
      const std::string expected = RunAll(plan, {processor, card.reference}, check_memory);
      EXPECT_TRUE(RunAll(plan, {*card.device, card.kernels}, check_memory) == expected);
      if (check_memory) continue;
      FakeCard measured({.profile = true});
      EXPECT_TRUE(RunAll(plan, {*measured.device, measured.kernels}, check_memory) == expected);
    }
  }
}

TEST(Device, ARunThatFailsLeavesNothingUnderWayOnTheCard) {
  const Plan plan = CompileAt("L3", 3);
  FakeCard card;
  auto executor = Open(plan, {*card.device, card.kernels}, false);
  const auto data = RandomBatch(InputSlots(plan.train.graph), 5);
  TrainPosition position{.seed = 7};
  const TrainOptions options{.steps = 20, .hyper = {.lr = 1e30, .eps = 1e-3}};
  auto result = Train(*executor, *data, nullptr, options, position);
  ASSERT_FALSE(static_cast<bool>(result));
  llvm::handleAllErrors(result.takeError(), [](const ActError& e) {
    EXPECT_NE(std::string(e.what()).find("the loss is"), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("the inputs are random numbers"), std::string::npos) << e.hint();
  });
  executor.reset();
  EXPECT_EQ(Text(card.device->Wait()), "");
}

// The tests above can fail: a host that dereferences an address dies.
TEST(DeviceDeathTest, TheHostCannotDereferenceAProtectedDevicesMemory) {
  ProtectedDevice device;
  auto memory = Take(device.Allocate(MemoryKind::kDevice, 4096));
  EXPECT_DEATH(*memory->base().as<volatile float>() = 1, "");
  EXPECT_EQ(Text(device.FillFloats(memory->base(), 1.f, 3)), "");
  float numbers[3] = {};
  EXPECT_EQ(Text(device.Download(std::as_writable_bytes(std::span(numbers)), memory->base())), "");
  EXPECT_EQ(numbers[2], 1.f);
}

}  // namespace
}  // namespace act
