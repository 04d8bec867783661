#include "runtime/executor/executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/size.h"
#include "runtime/codec/encode_numbers.h"
#include "runtime/executor/kernel_tuner.h"

namespace act {
namespace {

// Gives back the pages of weights that have been copied. Otherwise a plan's weights would be
// resident twice. This is advice about pages that lie wholly inside the tensor. Their contents stay
// as they are, whoever owns them.
void ReleasePages(const HostTensor& tensor) {
#ifdef MADV_PAGEOUT
  constexpr uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t end = (begin + static_cast<uintptr_t>(tensor.bytes)) / kPage * kPage;
  if (first < end) madvise(const_cast<std::byte*>(tensor.data + (first - begin)), end - first, MADV_PAGEOUT);
#endif
}

// Copies numbers, or their code, to where the tensor lies.
llvm::Error Upload(Device& device, const PersistentTensor& tensor, const HostTensor& numbers) {
  const auto bytes = static_cast<size_t>(tensor.view.bytes);
  if (!tensor.coded) return device.Upload(tensor.view.data, {numbers.data, bytes});
  const Codec& codec = tensor.coded->codec;
  const int64_t count = tensor.coded->type.Elements().fixed;
  std::vector<std::byte> code(static_cast<size_t>(LayoutOf(codec, count).sample_bytes));
  EncodeNumbers(codec, numbers.data, count, code);
  return device.Upload(tensor.view.data, {code.data(), bytes});
}

llvm::Error LoadInitialValue(Device& device, const Value& value, PersistentTensor& tensor) {
  const TensorView& view = tensor.view;
  const bool starts_at_zero = value.kind == ValueKind::kOptimizer || value.kind == ValueKind::kGradientSum;
  if (starts_at_zero && value.data.data == nullptr)
    return device.FillBytes(view.data, std::byte{0}, view.bytes);
  const std::string place = "tensor '" + value.name + "'";
  if (value.data.data == nullptr && view.bytes > 0) {
    return MakeError(place, "the plan holds no value for it",
                     "compile a model that has its weights, or give the weights with --load");
  }
  const int64_t bytes = value.FileType().Bytes().At(1);
  if (value.data.bytes != bytes) {
    return MakeError(place, "holds " + std::to_string(value.data.bytes) + " bytes, its type " +
                                ToString(value.FileType()) + " needs " + std::to_string(bytes));
  }
  if (view.bytes == 0) return llvm::Error::success();
  ACT_CHECK_OK(Upload(device, tensor, value.data));
  ReleasePages(value.data);
  if (tensor.coded) tensor.numbers = value.data;
  return llvm::Error::success();
}

}  // namespace

llvm::Error CheckFits(const Plan& plan, const MemoryLayout& layout, const Room& room) {
  const int64_t bytes = BytesOf(layout, room.arenas);
  if (bytes <= room.free_bytes) return llvm::Error::success();
  ACT_TRY(const int64_t batch, LargestBatch(plan, room.free_bytes, room.arenas, layout.target));
  std::string hint = "the largest batch that fits is " + std::to_string(batch);
  if (batch < 1 || plan.fixed_batch)
    hint = "no batch fits: compile at a higher level, or run it where there is more memory";
  return MakeError("--batch=" + std::to_string(layout.batch),
                   "needs " + FormatSize(bytes) + " of memory, and " + room.place + " has " +
                       FormatSize(room.free_bytes) + " free",
                   hint);
}

llvm::Expected<std::unique_ptr<Executor>> Executor::Create(const Plan& plan, MemoryLayout layout,
                                                           Device& device, const KernelRegistry& registry,
                                                           const ExecutorOptions& options) {
  ACT_CHECK_OK(ValidateLayout(plan, layout));
  if (layout.target != device.target())
    return MakeError("internal error: the layout",
                     std::string("is for ") + ToString(layout.target) + ", not " + ToString(device.target()));
  std::unique_ptr<Executor> executor(new Executor(plan, std::move(layout), device, registry, options));
  ACT_TRY(executor->arena_, Arena::Allocate(device, MemoryKind::kDevice, executor->layout_.arena_bytes));
  ACT_TRY(executor->host_arena_, Arena::Allocate(device, MemoryKind::kHost, executor->layout_.host_bytes));
  // Bind first, so that an op without a kernel is reported before anything large is read.
  ACT_CHECK_OK(executor->Train(executor->layout_.batch).takeError());
  if (options.tuner) {
    if (options.evaluates) ACT_CHECK_OK(executor->Eval(executor->layout_.batch).takeError());
    options.tuner->Keep();
  }
  executor->holds_values_ = true;
  ACT_CHECK_OK(executor->LoadPersistents(plan.train, executor->layout_.train));
  ACT_CHECK_OK(executor->LoadPersistents(plan.eval, executor->layout_.eval));
  return executor;
}

// Whoever started the work has been told what failed, or is being told.
Executor::~Executor() { llvm::consumeError(device_->Wait()); }

llvm::Error Executor::LoadPersistents(const StepGraph& step, const StepLayout& layout) {
  for (size_t v = 0; v < step.graph.values.size(); ++v) {
    const Value& value = step.graph.values[v];
    const StorageId storage = step.storage_of[v];
    if (!IsPersistent(value.kind) || storage < 0) continue;
    TensorView view = MakeView(value.type, layout_.batch);
    const int64_t offset = std::max<int64_t>(0, layout.offset[static_cast<size_t>(storage)]);
    ACT_TRY(view.data, arena_->HandOut(offset, view.bytes));
    const bool loaded = std::any_of(persistents_.begin(), persistents_.end(),
                                    [&](const PersistentTensor& p) { return p.name == value.name; });
    if (loaded) continue;  // shared by name with the training graph
    PersistentTensor tensor{value.name, value.kind, std::move(view), value.coded, {}};
    ACT_CHECK_OK(LoadInitialValue(*device_, value, tensor));
    persistents_.push_back(std::move(tensor));
  }
  return llvm::Error::success();
}

llvm::Error Executor::Load(const PersistentTensor& tensor, HostTensor numbers) {
  ACT_CHECK_OK(Upload(*device_, tensor, numbers));
  if (tensor.coded)
    persistents_[static_cast<size_t>(&tensor - persistents_.data())].numbers = std::move(numbers);
  return llvm::Error::success();
}

llvm::Expected<BoundGraph*> Executor::Bound(BoundByBatch& bound, const StepGraph& step,
                                            const StepLayout& layout, int64_t batch) {
  if (batch < 1 || batch > layout_.batch) {
    return MakeError("batch " + std::to_string(batch), "is outside 1.." + std::to_string(layout_.batch));
  }
  std::unique_ptr<BoundGraph>& graph = bound[batch];
  if (!graph) {
    ACT_TRY(std::unique_ptr<BoundGraph> placed,
            BoundGraph::Place(step, layout, batch, options_.threads, *device_, memories()));
    ACT_TRY(const std::vector<KernelChoice> choices, ChoicesFor(*placed, bound, step, layout));
    ACT_CHECK_OK(placed->TakeKernels(*registry_, choices));
    graph = std::move(placed);
  }
  return graph.get();
}

llvm::Expected<std::vector<KernelChoice>> Executor::ChoicesFor(const BoundGraph& graph, BoundByBatch& bound,
                                                               const StepGraph& step,
                                                               const StepLayout& layout) {
  std::vector<KernelChoice> choices;
  if (!options_.tuner) return choices;
  if (graph.batch() == layout_.batch) return options_.tuner->Choose(graph, *registry_, !holds_values_);
  ACT_TRY(const BoundGraph* const full, Bound(bound, step, layout, layout_.batch));
  for (const BoundNode& node : full->nodes()) choices.push_back(node.choice);
  return choices;
}

namespace {

// Whether the storages of values that live between steps keep their places.
bool KeepsPlaces(const StepGraph& was, const StepLayout& before, const StepGraph& is,
                 const StepLayout& after) {
  if (was.graph.values.size() > is.graph.values.size()) return false;
  for (size_t v = 0; v < was.graph.values.size(); ++v) {
    if (!IsPersistent(was.graph.values[v].kind) || was.storage_of[v] < 0) continue;
    const Value& value = is.graph.values[v];
    if (value.name != was.graph.values[v].name || value.type != was.graph.values[v].type) return false;
    if (is.storage_of[v] < 0 || after.offset[static_cast<size_t>(is.storage_of[v])] !=
                                    before.offset[static_cast<size_t>(was.storage_of[v])])
      return false;
  }
  return true;
}

}  // namespace

llvm::Error Executor::Rebind(const Plan& plan, MemoryLayout layout) {
  ACT_CHECK_OK(ValidateLayout(plan, layout));
  if (layout.target != layout_.target || layout.batch != layout_.batch ||
      layout.train.peak_bytes > promised_peak_bytes_ || layout.train.host_peak_bytes > promised_host_bytes_ ||
      layout.arena_bytes > arena_->bytes() || layout.host_bytes > host_arena_->bytes() ||
      layout.persistent_bytes != layout_.persistent_bytes ||
      !KeepsPlaces(plan_->train, layout_.train, plan.train, layout.train) ||
      !KeepsPlaces(plan_->eval, layout_.eval, plan.eval, layout.eval))
    return MakeError("internal error: another form of the plan",
                     "does not fit into the arena of the one that runs");
  ACT_CHECK_OK(device_->Wait());  // for the kernels of the graphs that go
  plan_ = &plan;
  layout_ = std::move(layout);
  for (const bool trains : {true, false}) {
    BoundByBatch before = std::exchange(trains ? train_ : eval_, {});
    for (const auto& [batch, graph] : before) {
      ACT_TRY(BoundGraph* const bound, trains ? Train(batch) : Eval(batch));
      bound->SetTimes(graph->Times());
    }
  }
  return llvm::Error::success();
}

std::vector<const BoundGraph*> Executor::BoundTrainGraphs() const {
  std::vector<const BoundGraph*> graphs;
  for (const auto& [batch, graph] : train_) graphs.push_back(graph.get());
  return graphs;
}

llvm::Error Executor::BeginStep() {
  if (!options_.check_memory) return llvm::Error::success();
  return FillDead(*device_, memories(), layout_.persistent_bytes);
}

llvm::Error Executor::Run(BoundGraph& graph, const StepState& state,
                          std::span<NodeObserver* const> observers) {
  if (!options_.check_memory) return graph.Run(state, observers);
  const StepLayout& layout = &graph.step() == &plan_->train ? layout_.train : layout_.eval;
  ACT_TRY(MemoryCheck check, MemoryCheck::Begin(graph, layout, layout_.persistent_bytes, memories()));
  std::vector<NodeObserver*> all(observers.begin(), observers.end());
  all.push_back(&check);
  return graph.Run(state, all);
}

}  // namespace act
