// A fused node with memory around it: what the tests and benchmarks of fused loops run kernels on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu/fused.h"
#include "kernels/reference/fused.h"
#include "kernels/site/dereference.h"
#include "runtime/executor/kernel.h"

namespace act {

// Bytes on a cache line's boundary. After them come 64 guard bytes that no kernel may write.
class GuardedBytes {
 public:
  static constexpr std::byte kGuard{0x5A};
  explicit GuardedBytes(int64_t bytes = 0)
      : bytes_(bytes), storage_(static_cast<size_t>(bytes) + 128, kGuard) {}
  std::byte* data() {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64;
  }
  int64_t size() const { return bytes_; }
  bool GuardIsIntact() {
    for (int i = 0; i < 64; ++i)
      if (data()[bytes_ + i] != kGuard) return false;
    return true;
  }

 private:
  int64_t bytes_;
  std::vector<std::byte> storage_;
};

class FusedCase {
 public:
  // Types of operands and results; outputs of kEncode may be left {} (their code type follows).
  FusedCase(Program program, std::vector<TensorType> inputs, std::vector<TensorType> outputs,
            int64_t batch = 1)
      : batch_(batch) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (program.inputs[i].codec.kind != CodecKind::kNone)
        inputs[i] = *CodeType(program.inputs[i].codec, program.space);
      AddTensor(inputs[i], input_views, input_bytes);
      node_.inputs.push_back(static_cast<ValueId>(i));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (program.outputs[i].kind == OutputKind::kEncode)
        outputs[i] = *CodeType(program.outputs[i].codec, program.space);
      AddTensor(outputs[i], output_views, output_bytes);
    }
    workspace_bound = FusedWorkspaceBound(program, outputs, CpuTarget()).At(batch);
    node_.op = "Fused";
    node_.program = std::move(program);
  }

  // Runs the kernel of that name ("fused", "reference.fused"); throws where it refuses.
  void Run(const std::string& kernel, int threads = 1) {
    Prepare(kernel, threads);
    Repeat();
  }

  // Runs "fused" with compiled runs of these instructions.
  void Run(RunIsa isa, int threads) {
    std::string why = "no reason given";
    kernel_ = CreateFused(Site(threads), isa, &why);
    if (!kernel_) throw std::runtime_error("fused refuses: " + why);
    workspace_ = GuardedBytes(kernel_->WorkspaceBytes());
    Repeat();
  }

  void Prepare(const std::string& name, int threads) {
    KernelRegistry registry;
    RegisterFusedKernels(registry);
    RegisterReferenceFusedKernel(registry);
    const KernelSite site = Site(threads);
    for (const KernelEntry& entry : registry.For("Fused")) {
      std::string why = "no reason given";
      if (entry.name != name) continue;
      kernel_ = entry.create(site, &why);
      if (!kernel_) throw std::runtime_error(name + " refuses: " + why);
    }
    workspace_ = GuardedBytes(kernel_->WorkspaceBytes());
  }

  void Repeat() {
    const KernelArgs args{input_views,
                          output_views,
                          {DevicePointer(workspace_.data()), static_cast<int64_t>(workspace_.size())},
                          &state};
    const std::string wrong = kernel_->Run(args);
    if (!wrong.empty()) throw std::runtime_error(wrong);
    for (auto* bytes : {&input_bytes, &output_bytes})
      for (GuardedBytes& b : *bytes)
        if (!b.GuardIsIntact()) throw std::runtime_error("wrote past a tensor");
    if (!workspace_.GuardIsIntact()) throw std::runtime_error("wrote past the workspace");
  }

  // Result `output` takes the memory of operand `input`.
  void Alias(size_t output, size_t input) { output_views[output].data = input_views[input].data; }

  // Operand `other` is operand `input` once more.
  void SameTensor(size_t input, size_t other) {
    node_.inputs[other] = node_.inputs[input];
    input_views[other] = input_views[input];
  }
  // The node at its batch size, without memory.
  KernelSite Site(int threads = 1) const {
    KernelSite site{&node_, input_views, output_views, batch_, workspace_bound, threads, batch_};
    for (auto* views : {&site.inputs, &site.outputs})
      for (TensorView& view : *views) view.data = nullptr;
    return site;
  }
  // Of the kernel that was prepared.
  std::string Describe() const { return kernel_->Describe(); }

  float* In(size_t i) { return input_views[i].as<float>(); }
  float* Out(size_t i) { return output_views[i].as<float>(); }
  // The bytes of result i.
  std::vector<std::byte> OutBytes(size_t i) {
    const auto* p = output_views[i].as<std::byte>();
    return {p, p + output_views[i].bytes};
  }

  std::vector<TensorView> input_views, output_views;
  std::vector<GuardedBytes> input_bytes, output_bytes;
  StepState state{.seed = 0x0123456789ABCDEF, .step = 7};
  int64_t workspace_bound = 0;

 private:
  void AddTensor(const TensorType& type, std::vector<TensorView>& views, std::vector<GuardedBytes>& bytes) {
    TensorView view;
    view.dtype = type.dtype;
    view.dims = DimsAt(type.dims, batch_);
    view.elements = ElementCount(view.dims);
    view.bytes = view.elements * ByteSize(type.dtype);
    bytes.emplace_back(view.bytes);
    view.data = DevicePointer(bytes.back().data());
    views.push_back(view);
  }

  Node node_;
  int64_t batch_;
  std::unique_ptr<Kernel> kernel_;
  GuardedBytes workspace_;
};

}  // namespace act
