// Raw bytes as a checkpoint of a small plan with a code: its levels, its tensors, its record of kernels, and a step of
// training from there. A checkpoint that is refused changes nothing, and levels that are taken give a valid plan.
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/reference/registry.h"
#include "runtime/levels/adapt_levels.h"
#include "runtime/plan/plan_check.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/kernel_record.h"
#include "runtime/train/trainer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/safetensors_mutator.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/unit/small_plan.h"

namespace act::fuzz {
namespace {

constexpr int64_t kBatch = 2;

CpuDevice& TheDevice() {
  static CpuDevice device;
  return device;
}

const KernelRegistry& Kernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry kernels;
    RegisterReferenceKernels(kernels);
    return kernels;
  }();
  return registry;
}

// With the evaluation left out: only training reads a checkpoint.
const Plan& ThePlan() {
  static const Plan plan = [] {
    Plan small = testing::SmallPlan();
    small.eval = {};
    return small;
  }();
  return plan;
}

template <class T>
T Take(llvm::Expected<T> value) {
  if (!value) Fail(llvm::toString(value.takeError()));
  return std::move(*value);
}

// The bytes of all that a checkpoint holds.
std::string State(const Executor& executor) {
  std::string state;
  for (const PersistentTensor& tensor : executor.persistents()) {
    const auto bytes = Take(executor.device().Read(tensor.view.data, tensor.view.bytes));
    state.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return state;
}

void Run(const std::string& bytes) {
  static const ScratchFile scratch("checkpoint.safetensors");
  scratch.Write(bytes);
  const Plan& plan = ThePlan();
  const auto executor =
      Take(Executor::Create(plan, Take(LayOut(plan, kBatch)), TheDevice(), Kernels(), {.threads = 1}));
  const std::string before = State(*executor);

  std::unique_ptr<Plan> resumed;
  auto levels = ReadCodeLevels(scratch.path());
  if (!levels) return llvm::consumeError(levels.takeError());
  if (!levels->counts.empty()) {
    auto with = WithLevels(plan, *levels);
    if (!with) {
      llvm::consumeError(with.takeError());
    } else if (*with) {
      resumed = std::make_unique<Plan>(std::move(**with));
      if (llvm::Error error = CheckPlan(*resumed)) Fail(llvm::toString(std::move(error)));
    }
  }
  TrainPosition position;
  if (llvm::Error error = LoadCheckpoint(scratch.path(), *executor, position)) {
    llvm::consumeError(std::move(error));
    Require(position == TrainPosition{} && State(*executor) == before,
            "a refused checkpoint has changed the run");
    return;
  }
  if (auto warning = CompareKernels(scratch.path(), *executor); !warning)
    llvm::consumeError(warning.takeError());
  LevelAdapter adapter(plan, 1, nullptr);
  if (resumed) Take(adapter.Resume(*executor, std::move(*resumed), *levels));

  // The numbers may be anything, so the loss may be infinite, which is an error.
  const auto data = RandomBatch(InputSlots(plan.train.graph), 1);
  TrainOptions options{.steps = 1};
  options.hyper.lr = .1;
  const Quiet quiet;  // of its progress
  auto trained = Train(*executor, *data, nullptr, options, position);
  if (!trained) llvm::consumeError(trained.takeError());
}

}  // namespace
}  // namespace act::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  return act::fuzz::MutateSafetensors(data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  act::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
