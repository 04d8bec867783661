// Recurrent layers: for each step a product of the state and the weights, and a kernel for all units
// (kernels/cuda/source/recurrent.h).
#include <algorithm>
#include <optional>

#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/recurrent_parameters.h"
#include "kernels/cuda/step_product.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/recurrent_shape.h"

namespace act::cuda {
namespace {

using Parameters = RecurrentParameters;

// Of all operators: the kernel of a step, and what products need.
class RecurrentKernel : public Kernel {
 public:
  RecurrentKernel(const CudaContext& context, const KernelSite& site, const RecurrentShape& shape,
                  const std::string& op, const std::string& name)
      : context_(context),
        s_(shape),
        room_(site.workspace_bytes),
        step_(context, name + "_step", "RecurrentParameters", "recurrent", op) {
    shared_.steps = s_.steps;
    shared_.units = DivisorOf(s_.units);
    shared_.items = static_cast<int32_t>(s_.batch * s_.units);
    shared_.relu = s_.relu;
  }
  int64_t WorkspaceBytes() const override { return workspace_bytes_; }

 protected:
  StepProduct Product(StepProduct::Shape shape) {
    shape.m = s_.batch;
    StepProduct product(context_, shape, room_ - library_at_);
    workspace_bytes_ = std::max(workspace_bytes_, library_at_ + product.workspace_bytes());
    return product;
  }
  Status Step(const Parameters& p) const { return step_.LaunchItems(p.items, p); }

  const CudaContext& context_;
  const RecurrentShape s_;
  const int64_t room_;
  int64_t library_at_ = 0, workspace_bytes_ = 0;
  Parameters shared_;

 private:
  OwnKernel<Parameters> step_;
};

// Sets an operator's operands and results.
using Fill = void (*)(const KernelArgs& args, Parameters& p);

class ForwardKernel final : public RecurrentKernel {
 public:
  ForwardKernel(const CudaContext& context, const KernelSite& site, const RecurrentShape& shape,
                const std::string& op, const std::string& name, size_t initial, Fill fill)
      : RecurrentKernel(context, site, shape, op, name), initial_(initial), fill_(fill) {
    library_at_ = workspace_bytes_ =
        RoundUp(s_.batch * s_.Width() * int64_t{sizeof(float)}, AlignmentOf(TargetKind::kCuda));
    const StepProduct::Shape product{
        .n = s_.Width(), .k = s_.units, .lead_a = s_.units, .lead_b = s_.units, .transposed = true};
    if (OptionalInput(site.inputs, initial)) from_initial_.emplace(Product(product));
    StepProduct::Shape from_y = product;
    from_y.lead_a = s_.steps * s_.units;
    if (s_.steps > 1) from_y_.emplace(Product(from_y));
  }
  std::string Run(const KernelArgs& args) override {
    Parameters p = shared_;
    p.gates = args.inputs[0].as<float>();
    p.y = args.outputs[0].as<float>();
    fill_(args, p);
    const auto* weights = args.inputs[1].as<float>();
    auto* const products = args.workspace.data.as<float>();
    std::byte* const library = args.workspace.data.as<std::byte>() + library_at_;
    for (int64_t step = 0; step < s_.steps; ++step) {
      p.time = s_.Time(step);
      p.first = step == 0;
      p.before = step == 0 ? OptionalFloats(args, initial_) : p.y + s_.Time(step - 1) * s_.units;
      p.before_row = step == 0 ? s_.units : s_.steps * s_.units;
      p.products = p.before ? products : nullptr;
      if (p.before)
        if (Status status =
                (step == 0 ? from_initial_ : from_y_)->Enqueue(p.before, weights, products, library);
            !status.empty())
          return status;
      if (Status status = Step(p); !status.empty()) return status;
    }
    return "";
  }

 private:
  const size_t initial_;  // the position of h0
  const Fill fill_;
  std::optional<StepProduct> from_initial_, from_y_;
};

class BackwardKernel final : public RecurrentKernel {
 public:
  BackwardKernel(const CudaContext& context, const KernelSite& site, const RecurrentShape& shape,
                 const std::string& op, const std::string& name, size_t weights, Fill fill)
      : RecurrentKernel(context, site, shape, op, name), weights_(weights), fill_(fill) {
    // Gru's candidate has its own: the state's part of it goes through the reset gate.
    const bool apart = s_.gates == 3;
    const int64_t width = (apart ? 2 : s_.gates) * s_.units;
    gates_.emplace(Product(
        {.n = s_.units, .k = width, .lead_a = s_.steps * s_.Width(), .lead_b = s_.units, .adds = apart}));
    if (apart)
      candidate_.emplace(Product(
          {.n = s_.units, .k = s_.units, .lead_a = s_.steps * s_.units, .lead_b = s_.units, .adds = true}));
  }
  std::string Run(const KernelArgs& args) override {
    Parameters p = shared_;
    p.gates = args.inputs[0].as<float>();
    p.dx = args.outputs[0].as<float>();
    fill_(args, p);
    const auto* weights = args.inputs[weights_].as<float>();
    auto* const library = args.workspace.data.as<std::byte>();
    for (int64_t step = s_.steps; step-- > 0;) {
      p.time = s_.Time(step);
      p.first = step == s_.steps - 1;
      Status status = Step(p);
      if (status.empty()) status = gates_->Enqueue(p.dx + p.time * s_.Width(), weights, p.dh, library);
      if (status.empty() && candidate_)
        status =
            candidate_->Enqueue(p.dq + p.time * s_.units, weights + 2 * s_.units * s_.units, p.dh, library);
      if (!status.empty()) return status;
    }
    return "";
  }

 private:
  const size_t weights_;  // their position
  const Fill fill_;
  std::optional<StepProduct> gates_, candidate_;
};

void FillLstm(const KernelArgs& args, Parameters& p) {
  p.c0 = OptionalFloats(args, 3);
  p.c = args.outputs[1].as<float>();
  p.slopes = args.outputs[2].as<float>();
  p.to_c_by_h = args.outputs[3].as<float>();
  p.to_forget = args.outputs[4].as<float>();
}
void FillLstmGrad(const KernelArgs& args, Parameters& p) {
  p.c_by_h = args.inputs[1].as<float>();
  p.forget = args.inputs[2].as<float>();
  p.dy = OptionalFloats(args, 4);
  p.c0 = OptionalFloats(args, 5);
  p.dh = args.outputs[1].as<float>();
  p.dc = args.outputs[2].as<float>();
}
void FillGru(const KernelArgs& args, Parameters& p) {
  p.bias = OptionalFloats(args, 2);
  p.slopes = args.outputs[1].as<float>();
  p.to_reset = args.outputs[2].as<float>();
  p.to_update = args.outputs[3].as<float>();
}
void FillGruGrad(const KernelArgs& args, Parameters& p) {
  p.reset = args.inputs[1].as<float>();
  p.update = args.inputs[2].as<float>();
  p.dy = args.inputs[4].as<float>();
  p.dq = args.outputs[1].as<float>();
  p.dh = args.outputs[2].as<float>();
}
void FillRnn(const KernelArgs&, Parameters&) {}
void FillRnnGrad(const KernelArgs& args, Parameters& p) {
  p.dy = args.inputs[2].as<float>();
  p.dh = args.outputs[1].as<float>();
}

// `position`: of h0 forward, of the weights backward.
template <class KernelOfOp>
void Add(KernelRegistry& registry, const CudaContext& context, const std::string& op, const std::string& name,
         size_t position, Fill fill) {
  registry.Add(op, {"cuda." + name,
                    [&context, op, name, position, fill](const KernelSite& site,
                                                         std::string* why) -> std::unique_ptr<Kernel> {
                      const auto s = RecurrentShapeOf(site, why);
                      if (!s) return nullptr;
                      if (s->batch == 0 || s->steps == 0 || s->units == 0)
                        return Refuse(why, "an empty tensor");
                      if (SaturatingMul(s->batch, s->Width()) >= kMaxCount)
                        return Refuse(why, "2^31 gates or more");
                      auto kernel = std::make_unique<KernelOfOp>(context, site, *s, op, name, position, fill);
                      if (kernel->WorkspaceBytes() <= site.workspace_bytes) return kernel;
                      return Refuse(why, TooLittleWorkspace(kernel->WorkspaceBytes(), site.workspace_bytes));
                    }});
}

}  // namespace

void RegisterCudaRecurrent(KernelRegistry& registry, const CudaContext& context) {
  Add<ForwardKernel>(registry, context, "Lstm", "lstm", 2, FillLstm);
  Add<BackwardKernel>(registry, context, "LstmGrad", "lstm_grad", 3, FillLstmGrad);
  Add<ForwardKernel>(registry, context, "Gru", "gru", 3, FillGru);
  Add<BackwardKernel>(registry, context, "GruGrad", "gru_grad", 3, FillGruGrad);
  Add<ForwardKernel>(registry, context, "Rnn", "rnn", 2, FillRnn);
  Add<BackwardKernel>(registry, context, "RnnGrad", "rnn_grad", 1, FillRnnGrad);
}

}  // namespace act::cuda
