#include "tests/fuzz/plan_run.h"

#include <omp.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/registry.h"
#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "runtime/executor/executor.h"
#include "runtime/plan/plan_io.h"
#include "runtime/plan/sample_loops.h"
#include "tests/fuzz/scratch_file.h"

namespace act::fuzz {
namespace {

const KernelRegistry& Kernels(bool reference) {
  static KernelRegistry all, plain;
  static const bool registered = [] {
    RegisterCpuKernels(all);
    RegisterReferenceKernels(plain);
    return true;
  }();
  return registered && reference ? plain : all;
}

CpuDevice& Processor() {
  static CpuDevice device;
  return device;
}

// Small numbers; with `wild`, some that are no index of anything.
void Fill(const TensorView& view, uint8_t kind) {
  if (!view.data || view.bytes == 0) return;
  const bool wild = kind % 8 == 7;
  auto* bytes = view.as<uint8_t>();
  std::memset(bytes, 0, static_cast<size_t>(view.bytes));
  for (int64_t i = 0; i < view.elements; ++i) {
    const int64_t number = wild ? (i % 3 - 1) * (int64_t{1} << (i % 62)) : (i * 7 + kind) % 5 % 2;
    switch (view.dtype) {
      case DType::kFloat32: {
        const float x =
            wild && i % 4 == 0 ? __builtin_nanf("") : static_cast<float>((i * 37 + kind) % 17 - 8) / 4;
        std::memcpy(bytes + i * 4, &x, 4);
        break;
      }
      case DType::kInt64:
        std::memcpy(bytes + i * 8, &number, 8);
        break;
      case DType::kInt32:
        std::memcpy(bytes + i * 4, &number, 4);
        break;
      case DType::kBool:
        bytes[i] = static_cast<uint8_t>(number != 0);
        break;
      default:
        break;
    }
  }
}

void FillInputs(const Graph& graph, const BoundGraph& bound, uint8_t kind) {
  for (const ValueId v : graph.inputs) Fill(bound.view(v), kind);
}

// The first error ends the run.
llvm::Error RunAt(const Plan& plan, int64_t batch, bool reference, uint8_t kind) {
  auto layout = LayOut(plan, batch);
  if (!layout) return layout.takeError();
  if (layout->arena_bytes > kMostArenaBytes || layout->host_bytes > kMostArenaBytes)
    return llvm::Error::success();
  ExecutorOptions options;
  options.check_memory = kind % 4 != 0;
  auto executor = Executor::Create(plan, std::move(*layout), Processor(), Kernels(reference), options);
  if (!executor) return executor.takeError();
  for (const int64_t samples : {batch, (batch + 1) / 2}) {
    auto bound = (*executor)->Train(samples);
    if (!bound) return bound.takeError();
    if (llvm::Error error = (*executor)->BeginStep()) return error;
    FillInputs(plan.train.graph, **bound, kind);
    StepState state{.seed = 7};
    if (llvm::Error error = (*executor)->Run(**bound, state)) return error;
  }
  if (plan.eval.graph.nodes.empty()) return llvm::Error::success();
  auto bound = (*executor)->Eval(batch);
  if (!bound) return bound.takeError();
  if (llvm::Error error = (*executor)->BeginStep()) return error;
  FillInputs(plan.eval.graph, **bound, kind);
  return (*executor)->Run(**bound, {.seed = 7});
}

}  // namespace

void RunPlan(const Plan& plan, ByteReader& bytes) {
  static const ScratchFile file("plan");
  omp_set_num_threads(1);
  const int64_t batch = 1 + bytes.Byte() % 6;
  const uint8_t kind = bytes.Byte();
  llvm::Error written = WriteUncheckedPlan(plan, file.path());
  if (written) return llvm::consumeError(std::move(written));
  auto read = ReadPlan(file.path());
  if (!read) return llvm::consumeError(read.takeError());
  for (const bool reference : {false, true}) llvm::consumeError(RunAt(*read, batch, reference, kind));
  if (batch > 1) llvm::consumeError(RunAt(*read, 1, false, kind));
}

}  // namespace act::fuzz
