#include "kernels/cpu/conv.h"

#include "kernels/cpu/conv_primitive.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pixel_product.h"
#include "kernels/cpu/weight_packing.h"
#include "kernels/cpu/widened_conv.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/workspace_text.h"

namespace act {
namespace {

// In the names of oneDNN's implementations that multiply tiles.
constexpr char kTiles[] = "amx";

// Workspace: [packed weights][scratch, or before that, what packing needs].
class DnnlConv final : public Kernel {
 public:
  // packing: of the weights; empty for their gradient.
  DnnlConv(const DnnlContext& context, ConvDirection direction, const ConvProblem& p,
           const ConvImplementation& impl, WeightPacking packing)
      : weight_(direction == ConvDirection::kGradWeight),
        name_(impl.name),
        threads_(impl.threads),
        scratch_at_(AlignedBytes(impl.packed_weights)),
        workspace_bytes_(scratch_at_ + std::max(AlignedBytes(impl.scratch), packing.ScratchBytes())),
        conv_(context, direction, p, impl),
        pack_(std::move(packing)),
        has_bias_(p.bias.get_size() > 0) {
    const ThreadScope scope(threads_);
    if (weight_) unpack_ = WeightReorder(context, impl.packed_weights, p.plain_weights);
  }

  std::string Run(const KernelArgs& args) override {
    const ThreadScope scope(threads_);
    auto* packed = args.workspace.data.as<std::byte>();
    std::byte* scratch = packed + scratch_at_;
    const void *first = args.inputs[0].as<void>(), *second = args.inputs[1].as<void>();
    void* result = args.outputs[0].as<void>();
    if (weight_) {
      const std::string error = conv_.RunGradWeight(first, second, packed, scratch);
      return error.empty() ? unpack_.Run(packed, result) : error;
    }
    if (std::string error = pack_.Run(second, packed, scratch); !error.empty()) return error;
    return conv_.Run(first, packed, has_bias_ ? args.inputs[2].as<void>() : nullptr, result, scratch);
  }

  int64_t WorkspaceBytes() const override { return workspace_bytes_; }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return name_ + ", " + std::to_string(threads_) + " threads, " + WorkspaceText(workspace_bytes_);
  }

 private:
  bool weight_;
  std::string name_;
  int threads_;
  int64_t scratch_at_, workspace_bytes_;
  ConvPrimitive conv_;
  WeightPacking pack_;
  WeightReorder unpack_;
  bool has_bias_;
};

std::unique_ptr<Kernel> Create(const DnnlContext& context, ConvDirection direction, const KernelSite& site,
                               std::string* why) {
  const auto conv = ConvSiteOf(site, direction, why);
  if (!conv) return nullptr;
  std::string reason = "oneDNN has no fast implementation";
  try {
    const ConvProblem problem = ConvProblemOf(conv->shape, direction, conv->types, conv->has_bias);
    // Tiles on fewer threads are faster than pairs on all.
    for (const std::string_view wanted : {conv->rounds ? kTiles : "", ""})
      for (int threads : ThreadLadder(site.threads)) {
        const auto impl =
            ChooseConv(context, direction, problem, threads, site.workspace_bytes, &reason, wanted);
        if (!impl) continue;
        const ThreadScope scope(threads);
        std::optional<WeightPacking> packing = WeightPacking();
        if (direction != ConvDirection::kGradWeight)
          packing = WeightPacking::Of(context, problem.plain_weights, impl->packed_weights,
                                      site.inputs[1].coded, &reason);
        if (!packing) continue;
        auto kernel = std::make_unique<DnnlConv>(context, direction, problem, *impl, std::move(*packing));
        if (kernel->WorkspaceBytes() <= site.workspace_bytes) return kernel;
        reason = TooLittleWorkspace(kernel->WorkspaceBytes(), site.workspace_bytes);
      }
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  return Refuse(why, reason);
}

// The weight gradient of a pointwise convolution as a matrix product (pixel_product.h).
class PointwiseGradWeight final : public Kernel {
 public:
  PointwiseGradWeight(PixelProduct product, int threads) : product_(std::move(product)), threads_(threads) {}

  std::string Run(const KernelArgs& args) override {
    const ThreadScope scope(threads_);
    return product_.Run(args.inputs[0].as<void>(), args.inputs[1].as<void>(), args.outputs[0].as<float>(),
                        args.workspace.data.as<void>());
  }
  int64_t WorkspaceBytes() const override { return product_.ScratchBytes(); }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return product_.name() + ", " + std::to_string(threads_) + " threads, " + WorkspaceText(WorkspaceBytes());
  }

 private:
  PixelProduct product_;
  int threads_;
};

std::unique_ptr<Kernel> CreatePointwiseGradWeight(const DnnlContext& context, const KernelSite& site,
                                                  std::string* why) {
  const auto conv = ConvSiteOf(site, ConvDirection::kGradWeight, why);
  if (!conv) return nullptr;
  const ConvShape& s = conv->shape;
  if (!s.IsPointwise()) return Refuse(why, "not a dense convolution by single pixels");
  std::string reason = "oneDNN has no fast implementation";
  try {
    // All threads or none: with fewer threads, the convolution is faster.
    auto product = PixelProduct::Choose(context, {s.batch * s.OutPixels(), s.out_channels, s.channels},
                                        conv->types.x, false, site.threads, site.workspace_bytes, &reason);
    if (product) return std::make_unique<PointwiseGradWeight>(std::move(*product), site.threads);
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  return Refuse(why, reason);
}

}  // namespace

void RegisterDnnlConv(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context) {
  using Creator =
      std::unique_ptr<Kernel> (*)(const DnnlContext&, ConvDirection, const KernelSite&, std::string*);
  const auto add = [&](const std::string& op, const std::string& name, Creator create,
                       ConvDirection direction) {
    registry.Add(op, {name, [context, create, direction](const KernelSite& site, std::string* why) {
                        return create(*context, direction, WithNumbers(site, 1), why);
                      }});
  };
  const auto add_widened = [&] {
    add("Conv", "dnnl.widened_conv", CreateWidenedConv, ConvDirection::kForward);
    add("ConvGradInput", "dnnl.widened_conv_grad_input", CreateWidenedConv, ConvDirection::kGradInput);
    registry.Add("ConvGradWeight",
                 {"dnnl.widened_conv_grad_weight", [context](const KernelSite& site, std::string* why) {
                    return CreateWidenedGradWeight(*context, site, why);
                  }});
  };
  if (!DnnlBFloat16IsFast()) add_widened();
  add("Conv", "dnnl.conv", Create, ConvDirection::kForward);
  add("ConvGradInput", "dnnl.conv_grad_input", Create, ConvDirection::kGradInput);
  registry.Add("ConvGradWeight",
               {"dnnl.pointwise_grad_weight", [context](const KernelSite& site, std::string* why) {
                  return CreatePointwiseGradWeight(*context, site, why);
                }});
  add("ConvGradWeight", "dnnl.conv_grad_weight", Create, ConvDirection::kGradWeight);
  if (DnnlBFloat16IsFast()) add_widened();
}

}  // namespace act
