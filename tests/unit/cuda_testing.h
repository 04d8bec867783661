// Runs one node by a kernel of the CUDA backend on the card of tests/unit/test_card.h, and all of them against
// the reference.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/cuda/host_work.h"
#include "kernels/cuda/step_image.h"
#include "tests/unit/kernel_testing.h"
#include "tests/unit/test_card.h"

namespace act {

// RegisterCudaReduce and its like (kernels/cuda/registry.h).
using CudaRegister = void (*)(KernelRegistry&, const cuda::CudaContext&);

// A card with all that kernels need: a cache, a stream, the step's numbers in its memory.
class TestCard {
 public:
  TestCard() {
    OpenedCard opened = OpenTestCard();
    toolkit_ = std::move(opened.toolkit);
    controls_ = opened.controls;
    // The fake keeps its own.
    const std::string folder = IsRealCard() ? cuda::DefaultKernelFolder() : "";
    cache_ = std::make_unique<cuda::KernelCache>(driver(), toolkit_->compiler(),
                                                 cuda::KernelCacheOptions{.folder = folder});
    engines_ = std::make_unique<cuda::EngineCache>(toolkit_->convolutions());
    host_work_ = std::make_unique<cuda::HostWork>(driver());
    context_ = std::make_unique<cuda::CudaContext>(cuda::CudaContext{.toolkit = *toolkit_,
                                                                     .cache = *cache_,
                                                                     .engines = *engines_,
                                                                     .fault_sites = sites_,
                                                                     .host_work = *host_work_});
    EXPECT_EQ(driver().CreateStream(&context_->stream), "");
    context_->step_block = Allocate(sizeof(cuda::StepImage));
    context_->fault_record = Allocate(sizeof(FaultRecord));
    SetStep({});
  }
  ~TestCard() { driver().Destroy(context_->stream); }
  TestCard(const TestCard&) = delete;
  TestCard& operator=(const TestCard&) = delete;

  cuda::Driver& driver() { return toolkit_->driver(); }
  cuda::Toolkit& toolkit() { return *toolkit_; }
  cuda::KernelCache& cache() { return *cache_; }
  const cuda::CudaContext& context() const { return *context_; }
  // Seeds, and counts of sectors.
  fake::Controls& controls() { return *controls_; }

  // Device memory of exactly so many bytes. On the fake: NaN at first, and an access outside of it is an
  // error.
  DevicePointer Allocate(int64_t bytes) {
    std::byte* address = nullptr;
    EXPECT_EQ(driver().Allocate(bytes, &address), "");
    return DevicePointer(address);
  }
  void Free(DevicePointer memory) { driver().Free(memory.as<std::byte>()); }

  void Upload(DevicePointer to, const void* from, int64_t bytes) {
    Move(to, const_cast<void*>(from), bytes, true);
  }
  void Download(void* to, DevicePointer from, int64_t bytes) { Move(from, to, bytes, false); }
  // The state that kernels see from now on. Forgets faults in data.
  void SetStep(const StepState& state) {
    const cuda::StepImage image = cuda::ImageOf(state);
    Upload(context_->step_block, &image, sizeof image);
    const FaultRecord none;
    Upload(context_->fault_record, &none, sizeof none);
  }
  FaultRecord fault() {
    FaultRecord fault;
    Download(&fault, context_->fault_record, sizeof fault);
    return fault;
  }
  // Of products, for kernels that are made from now on.
  void MultiplyIn(cuda::FloatMath math) { context_->product_math = math; }
  // The error of what has been enqueued, or an empty string.
  std::string Wait() { return driver().Synchronize(context_->stream); }

 private:
  void Move(DevicePointer device, void* host, int64_t bytes, bool up) {
    if (bytes == 0) return;
    std::byte *pinned = nullptr, *address = device.as<std::byte>();
    ASSERT_EQ(driver().AllocatePinned(bytes, &pinned), "");
    if (up) std::memcpy(pinned, host, static_cast<size_t>(bytes));
    EXPECT_EQ(up ? driver().CopyToDevice(context_->stream, address, pinned, bytes)
                 : driver().CopyToHost(context_->stream, pinned, address, bytes),
              "");
    EXPECT_EQ(Wait(), "");
    if (!up) std::memcpy(host, pinned, static_cast<size_t>(bytes));
    driver().FreePinned(pinned);
  }

  std::unique_ptr<cuda::Toolkit> toolkit_;
  fake::Controls* controls_ = nullptr;
  std::unique_ptr<cuda::KernelCache> cache_;
  std::unique_ptr<cuda::EngineCache> engines_;
  std::unique_ptr<cuda::HostWork> host_work_;
  cuda::FaultSites sites_;
  std::unique_ptr<cuda::CudaContext> context_;
};

// The card of tests that need none of their own. Kernels stay compiled between cases.
inline TestCard& TheTestCard() {
  static auto* card = new TestCard;
  return *card;
}

// The kernels of one part, on TheTestCard.
inline KernelRegistry CudaKernels(CudaRegister add) {
  KernelRegistry registry;
  add(registry, TheTestCard().context());
  return registry;
}

struct CudaResult : OpResult {
  std::string description;  // the kernel's, of itself
  FaultRecord fault;        // in data
};

// A case's tensors, and a workspace, in memory of the card. Each is an allocation of its own, so that
// the fake finds any access outside of them.
class CaseOnCard {
 public:
  CaseOnCard(TestCard& card, OpCase& c, int64_t workspace_bytes)
      : card_(card),
        workspace_bytes_(workspace_bytes),
        first_sample_(c.first_sample),
        goes_on_(c.goes_on),
        is_operand_(c.outputs.size()) {
    for (std::vector<TestTensor>* tensors : {&c.inputs, &c.outputs})
      for (TestTensor& t : *tensors) {
        TensorView view = t.View(false);
        if (t.present) view.data = card.Allocate(view.bytes);
        (tensors == &c.inputs ? inputs_ : outputs_).push_back(view);
      }
    for (const auto& [output, input] : c.in_place) {
      // The first operand's memory, for the result and for further operands.
      TensorView& from = is_operand_[output] ? inputs_[input] : outputs_[output];
      card.Free(from.data);
      from.data = is_operand_[output] ? outputs_[output].data : inputs_[input].data;
      is_operand_[output] = true;
    }
    if (workspace_bytes > 0) workspace_ = card.Allocate(workspace_bytes);
  }
  ~CaseOnCard() {
    std::set<std::byte*> tensors;
    for (const std::vector<TensorView>* views : {&inputs_, &outputs_})
      for (const TensorView& view : *views)
        if (view.data && tensors.insert(view.as<std::byte>()).second) card_.Free(view.data);
    if (workspace_) card_.Free(workspace_);
  }
  CaseOnCard(const CaseOnCard&) = delete;
  CaseOnCard& operator=(const CaseOnCard&) = delete;

  // Without the step's state: kernels read the step block, so that a recorded step follows what is in it.
  KernelArgs Args() const {
    return {.inputs = inputs_,
            .outputs = outputs_,
            .workspace = {workspace_, workspace_bytes_},
            .first_sample = first_sample_,
            .goes_on = goes_on_};
  }
  void Upload(const OpCase& c) {
    for (size_t i = 0; i < inputs_.size(); ++i)
      card_.Upload(inputs_[i].data, c.inputs[i].bytes.data(), inputs_[i].bytes);
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!is_operand_[i]) card_.Upload(outputs_[i].data, c.outputs[i].bytes.data(), outputs_[i].bytes);
  }
  // The outputs, then the inputs that the node mutates.
  std::vector<TestTensor> Download(const OpCase& c) {
    std::vector<TestTensor> tensors = c.outputs;
    for (size_t i = 0; i < outputs_.size(); ++i)
      card_.Download(tensors[i].bytes.data(), outputs_[i].data, outputs_[i].bytes);
    for (const int32_t m : c.mutates) {
      const auto i = static_cast<size_t>(m);
      tensors.push_back(c.inputs[i]);
      card_.Download(tensors.back().bytes.data(), inputs_[i].data, inputs_[i].bytes);
    }
    return tensors;
  }

 private:
  TestCard& card_;
  const int64_t workspace_bytes_;
  const int64_t first_sample_;
  const bool goes_on_;
  std::vector<TensorView> inputs_, outputs_;
  std::vector<bool> is_operand_;  // of each output: it lies where an operand does
  DevicePointer workspace_;
};

// Runs the node on TheTestCard, on copies of the case's tensors: first as it comes, then recorded under
// another state of the step and replayed twice in another order. All must give the same bits.
inline CudaResult RunCuda(const KernelEntry& entry, OpCase c, int64_t workspace) {
  TestCard& card = TheTestCard();
  cuda::Stream* stream = card.context().stream;
  Node node;
  node.op = c.op;
  node.attrs = c.attrs;
  node.mutates = c.mutates;
  KernelSite site{&node, {}, {}, 1, workspace, 1};
  for (TestTensor& t : c.inputs) site.inputs.push_back(t.View(false));
  for (TestTensor& t : c.outputs) site.outputs.push_back(t.View(false));
  if (!c.inputs.empty() && !c.inputs[0].dims.empty()) site.batch = site.whole_batch = c.inputs[0].dims[0];
  site.goes_on = c.goes_on;
  CudaResult result;
  const auto kernel = entry.create(site, &result.error);
  if (!kernel) {
    result.refused = true;
    EXPECT_FALSE(result.error.empty()) << entry.name << " refuses without a reason";
    return result;
  }
  result.workspace_bytes = kernel->WorkspaceBytes();
  result.description = kernel->Describe();
  EXPECT_LE(result.workspace_bytes, workspace) << entry.name;
  result.error = card.cache().CompileAll();
  if (!result.error.empty()) return result;

  CaseOnCard tensors(card, c, result.workspace_bytes);
  tensors.Upload(c);
  card.SetStep(c.state);
  result.error = kernel->Run(tensors.Args());
  const std::string later = card.Wait();
  if (result.error.empty()) result.error = later;
  result.fault = card.fault();
  result.tensors = tensors.Download(c);
  if (!result.error.empty()) return result;

  StepState other = c.state;
  other.seed += 12345;
  other.step += 1;
  other.update.hyper.lr += 1;
  card.SetStep(other);
  EXPECT_EQ(card.driver().BeginCapture(stream), "");
  EXPECT_EQ(kernel->Run(tensors.Args()), "") << entry.name << ", recorded";
  cuda::Graph* graph = nullptr;
  EXPECT_EQ(card.driver().EndCapture(stream, &graph), "") << entry.name;
  for (const uint64_t seed : {2, 3}) {
    card.controls().Seed(seed);
    tensors.Upload(c);
    card.SetStep(c.state);
    EXPECT_EQ(card.driver().Launch(stream, graph), "") << entry.name;
    EXPECT_EQ(card.Wait(), "") << entry.name << ", replayed";
    const std::vector<TestTensor> again = tensors.Download(c);
    for (size_t i = 0; i < again.size(); ++i)
      EXPECT_EQ(again[i].bytes, result.tensors[i].bytes)
          << entry.name << ", tensor " << i << ": a replay with seed " << seed << " gives other bits";
  }
  card.driver().Destroy(graph);
  return result;
}

// Runs every kernel that `add` registers for the operator, with the planned workspace and with none, and
// compares it with the reference. Returns how many ran with the planned workspace.
inline int CompareCudaWithReference(CudaRegister add, const OpCase& c, double tolerance) {
  const KernelRegistry registry = CudaKernels(add);
  EXPECT_FALSE(registry.For(c.op).empty()) << c.op;
  const OpResult truth = RunReference(c);
  EXPECT_FALSE(truth.refused) << truth.error;
  EXPECT_EQ(truth.error, "");
  const int64_t planned = PlannedWorkspace(c, CudaTarget());
  int ran = 0;
  for (const KernelEntry& entry : registry.For(c.op))
    for (const int64_t workspace : {planned, int64_t{0}}) {
      const CudaResult result = RunCuda(entry, c, workspace);
      if (result.refused) continue;
      const std::string where = entry.name + ", " + std::to_string(workspace) + " bytes of workspace";
      EXPECT_EQ(result.error, "") << where;
      if (!result.error.empty()) continue;
      ran += workspace == planned;
      for (size_t i = 0; i < truth.tensors.size(); ++i)
        if (truth.tensors[i].present) {
          EXPECT_LE(Distance(result.tensors[i], truth.tensors[i]), tolerance) << where << ", tensor " << i;
        }
      if (workspace == 0) break;
    }
  return ran;
}

// Sectors of memory that the case's first kernel touches, over the least that its requests could. 1 on a real
// card, where nobody counts them.
inline double SectorsOverIdeal(CudaRegister add, const OpCase& c) {
  if (IsRealCard()) return 1;
  const KernelRegistry registry = CudaKernels(add);
  fake::Controls& controls = TheTestCard().controls();
  controls.WatchAccesses(true);
  const CudaResult result = RunCuda(registry.For(c.op).front(), c, PlannedWorkspace(c, CudaTarget()));
  EXPECT_FALSE(result.refused) << result.error;
  EXPECT_EQ(result.error, "");
  int64_t sectors = 0, ideal = 0;
  for (const auto& [name, counts] : controls.Accesses()) {
    sectors += counts.sectors;
    ideal += counts.ideal_sectors;
  }
  controls.WatchAccesses(false);
  EXPECT_GT(ideal, 0);
  return static_cast<double>(sectors) / static_cast<double>(std::max<int64_t>(ideal, 1));
}

}  // namespace act
