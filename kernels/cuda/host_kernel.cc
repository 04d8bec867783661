// cuda.host: operators that have no kernel of their own. Operands are copied to the host's memory, the
// reference kernel runs there in the order of the stream, and its results are copied back. Slow, but
// every model trains.
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "kernels/cuda/host_work.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/step_image.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/plan/runtime_op.h"

namespace act::cuda {
namespace {

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

class HostKernel final : public Kernel {
 public:
  HostKernel(const CudaContext& context, const KernelSite& site, std::string name,
             std::unique_ptr<Kernel> kernel)
      : context_(context),
        place_("node '" + site.node->name + "' (" + site.node->op + ")"),
        name_(std::move(name)),
        kernel_(std::move(kernel)) {
    int64_t bytes = Aligned(sizeof(StepState));
    const auto place = [&bytes](const TensorView& view) {
      const int64_t at = bytes;
      bytes += Aligned(view.bytes);
      return at;
    };
    for (const TensorView& view : site.inputs) inputs_.push_back({view, place(view)});
    // What a program mutates comes again as an output, in the memory of the input.
    const size_t own = site.node->outputs.size();
    for (size_t i = 0; i < site.outputs.size(); ++i) {
      const bool mutated = i >= own;
      const int64_t at =
          mutated ? inputs_[static_cast<size_t>(site.node->mutates[i - own])].offset : place(site.outputs[i]);
      outputs_.push_back({site.outputs[i], at});
    }
    if (site.outputs.size() == own)
      for (const int32_t m : site.node->mutates) mutated_.push_back(static_cast<size_t>(m));
    context.host_work.Reserve(bytes);
  }

  std::string Run(const KernelArgs& args) override {
    Driver& driver = context_.driver();
    std::byte* const staging = context_.host_work.staging();
    constexpr int64_t kState = offsetof(StepImage, state);
    Status status = driver.CopyToHost(context_.stream, staging,
                                      (context_.step_block + kState).as<std::byte>(), sizeof(StepState));
    for (size_t i = 0; i < inputs_.size() && status.empty(); ++i)
      status = ToHost(args.inputs[i], staging + inputs_[i].offset);
    // An output that is not written whole keeps what it held.
    for (size_t i = 0; i < outputs_.size() && status.empty(); ++i)
      status = ToHost(args.outputs[i], staging + outputs_[i].offset);
    if (status.empty()) status = driver.HostCall(context_.stream, &Call::Run, CallFor(args, staging));
    for (size_t i = 0; i < outputs_.size() && status.empty(); ++i)
      status = ToDevice(args.outputs[i], staging + outputs_[i].offset);
    for (size_t i = 0; i < mutated_.size() && status.empty(); ++i)
      status = ToDevice(args.inputs[mutated_[i]], staging + inputs_[mutated_[i]].offset);
    return status;
  }
  std::string Describe() const override { return "on the host: " + name_; }

 private:
  struct Staged {
    TensorView view;  // without data
    int64_t offset = 0;
  };
  // The call for one first sample, which a recording makes at each launch.
  struct Call {
    HostKernel* kernel = nullptr;
    const std::byte* state = nullptr;
    int64_t first_sample = 0;
    bool goes_on = false;
    std::vector<TensorView> inputs, outputs;  // in staging memory

    static void Run(void* argument) {
      const Call& call = *static_cast<const Call*>(argument);
      StepState state;
      std::memcpy(&state, call.state, sizeof state);
      const std::string error = call.kernel->kernel_->Run({.inputs = call.inputs,
                                                           .outputs = call.outputs,
                                                           .workspace = {},
                                                           .state = &state,
                                                           .first_sample = call.first_sample,
                                                           .goes_on = call.goes_on});
      if (!error.empty()) call.kernel->context_.host_work.Fail(call.kernel->place_ + ": " + error);
    }
  };

  Status ToHost(const TensorView& view, std::byte* to) const {
    if (view.bytes == 0 || !view.data) return "";
    return context_.driver().CopyToHost(context_.stream, to, view.data.as<std::byte>(), view.bytes);
  }
  Status ToDevice(const TensorView& view, const std::byte* from) const {
    if (view.bytes == 0 || !view.data) return "";
    return context_.driver().CopyToDevice(context_.stream, view.data.as<std::byte>(), from, view.bytes);
  }

  Call* CallFor(const KernelArgs& args, std::byte* staging) {
    std::unique_ptr<Call>& call = calls_[{args.first_sample, args.goes_on, staging}];
    if (call) return call.get();
    call = std::make_unique<Call>(Call{.kernel = this,
                                       .state = staging,
                                       .first_sample = args.first_sample,
                                       .goes_on = args.goes_on,
                                       .inputs = {},
                                       .outputs = {}});
    const auto views = [staging](const std::vector<Staged>& from) {
      std::vector<TensorView> result;
      for (const Staged& tensor : from) {
        result.push_back(tensor.view);
        // An optional operand that is left out has no dims and no bytes.
        if (tensor.view.bytes > 0) result.back().data = DevicePointer(staging + tensor.offset);
      }
      return result;
    };
    call->inputs = views(inputs_);
    call->outputs = views(outputs_);
    return call.get();
  }

  const CudaContext& context_;
  const std::string place_, name_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Staged> inputs_, outputs_;
  std::vector<size_t> mutated_;  // inputs that are written, where outputs do not repeat them
  std::map<std::tuple<int64_t, bool, std::byte*>, std::unique_ptr<Call>> calls_;
};

}  // namespace

void RegisterCudaHost(KernelRegistry& registry, const CudaContext& context, const KernelRegistry& host) {
  for (const auto& [op, entries] : host.all()) {
    if (op == kSwapOut || op == kSwapIn) continue;  // their operands are in two memories
    const KernelEntry& reference = entries.back();
    registry.Add(op,
                 {"cuda.host",
                  [&context, reference](const KernelSite& site, std::string* why) -> std::unique_ptr<Kernel> {
                    std::unique_ptr<Kernel> kernel = reference.create(site, why);
                    if (!kernel) return nullptr;
                    return std::make_unique<HostKernel>(context, site, reference.name, std::move(kernel));
                  }});
  }
}

}  // namespace act::cuda
