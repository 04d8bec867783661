// Runs a plan at one batch size: owns the arenas, loads what lives there for the whole run, and
// binds the step graphs.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/arena.h"
#include "runtime/executor/bound_graph.h"
#include "runtime/executor/kernel.h"
#include "runtime/executor/memory_check.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/plan.h"

namespace act {

class KernelTuner;

struct ExecutorOptions {
  int threads = 1;            // the size of the OpenMP team that kernels are chosen for
  bool check_memory = false;  // verify after each node that nothing else was written (slow)
  // Chooses kernels by time, before weights are loaded; null: by the lists' order. Must outlive the executor.
  KernelTuner* tuner = nullptr;
  bool evaluates = false;  // so a tuner is asked for the graph of evaluation, too
};

// A tensor that keeps its value between steps.
struct PersistentTensor {
  std::string name;  // the model's own, or the compiler's for optimizer state
  ValueKind kind = ValueKind::kParameter;
  TensorView view;
  // Of a frozen parameter whose code lies in the arena, else null; and its numbers, as they were loaded.
  std::shared_ptr<const CodedParameter> coded = nullptr;
  HostTensor numbers;
};

class Executor {
 public:
  // Waits for the device: after an error, a step may be under way that uses the arenas and the kernels.
  ~Executor();

  // Allocates the arenas, copies parameters, buffers and constants into the device's (optimizer state is
  // zeroed), and binds the training graph at layout.batch. The plan and the device must outlive the
  // executor; of its weights only the types are read later, and those of which codes were made. A tuner times kernels
  // in the arena first. Errors: a layout that does not validate, weights that the plan does not contain, an op without
  // a kernel.
  static llvm::Expected<std::unique_ptr<Executor>> Create(const Plan& plan, MemoryLayout layout,
                                                          Device& device, const KernelRegistry& registry,
                                                          const ExecutorOptions& options);

  // The graphs at batch 1 <= n <= layout.batch, bound at first use. A smaller last batch runs at
  // the same offsets, and with the kernels that a tuner chose for the full one, where they accept it.
  llvm::Expected<BoundGraph*> Train(int64_t batch) {
    return Bound(train_, plan_->train, layout_.train, batch);
  }
  llvm::Expected<BoundGraph*> Eval(int64_t batch) { return Bound(eval_, plan_->eval, layout_.eval, batch); }

  // Continues with another form of the plan (other numbers of levels) in the same arenas. Whatever
  // keeps its value between steps stays as it is. All graphs that were bound are bound again, and
  // their addresses change. `plan` must outlive the executor. Errors, before anything is changed: a
  // layout that does not validate, is for another batch, moves what keeps its value, or has a
  // higher peak than the executor began with.
  llvm::Error Rebind(const Plan& plan, MemoryLayout layout);

  // Runs a bound graph whose inputs have been written. With check_memory, dead bytes are checked as
  // well.
  llvm::Error Run(BoundGraph& graph, const StepState& state, std::span<NodeObserver* const> observers = {});
  // To be called before the inputs of a step are written. With check_memory, dead bytes are then
  // set to NaN.
  llvm::Error BeginStep();

  const std::vector<PersistentTensor>& persistents() const { return persistents_; }
  // Gives one of them another value, as files have it: numbers, of which a coded one gets the code.
  llvm::Error Load(const PersistentTensor& tensor, HostTensor numbers);
  // The training graphs bound so far.
  std::vector<const BoundGraph*> BoundTrainGraphs() const;
  const Plan& plan() const { return *plan_; }
  Device& device() const { return *device_; }
  const MemoryLayout& layout() const { return layout_; }
  // The peak of the layout that the executor began with. No later layout has a higher one.
  int64_t promised_peak_bytes() const { return promised_peak_bytes_; }
  int64_t promised_host_bytes() const { return promised_host_bytes_; }
  const Arena& arena() const { return *arena_; }
  // The host's arena, for what is swapped (runtime/plan/swap.h). It has no bytes if nothing is.
  const Arena& host_arena() const { return *host_arena_; }

 private:
  using BoundByBatch = std::map<int64_t, std::unique_ptr<BoundGraph>>;
  Executor(const Plan& plan, MemoryLayout layout, Device& device, const KernelRegistry& registry,
           const ExecutorOptions& options)
      : plan_(&plan),
        device_(&device),
        layout_(std::move(layout)),
        promised_peak_bytes_(layout_.train.peak_bytes),
        promised_host_bytes_(layout_.train.host_peak_bytes),
        registry_(&registry),
        options_(options) {}
  llvm::Expected<BoundGraph*> Bound(BoundByBatch& bound, const StepGraph& step, const StepLayout& layout,
                                    int64_t batch);
  // The choice for each node of a placed graph, which is in `bound` afterwards if it is a smaller batch's.
  llvm::Expected<std::vector<KernelChoice>> ChoicesFor(const BoundGraph& graph, BoundByBatch& bound,
                                                       const StepGraph& step, const StepLayout& layout);
  llvm::Error LoadPersistents(const StepGraph& step, const StepLayout& layout);
  Memories memories() const { return {*arena_, *host_arena_}; }

  const Plan* plan_;
  Device* device_;
  MemoryLayout layout_;
  int64_t promised_peak_bytes_, promised_host_bytes_;
  const KernelRegistry* registry_;
  ExecutorOptions options_;
  std::unique_ptr<Arena> arena_, host_arena_;
  std::vector<PersistentTensor> persistents_;
  bool holds_values_ = false;  // the arena: so nothing may be timed in it
  BoundByBatch train_, eval_;
};

// A memory in which arenas are to be allocated.
struct Room {
  int64_t free_bytes = 0;
  std::string place = "this machine";  // in errors: "this machine", "the card (NVIDIA H200)"
  Arenas arenas = Arenas::kBoth;       // those that lie in it
};

// An error if the arenas of `layout` need more than the memory has free. The hint has the largest
// batch that fits.
llvm::Error CheckFits(const Plan& plan, const MemoryLayout& layout, const Room& room);

}  // namespace act
