#include <algorithm>

#include "kernels/cpu/pixel_product.h"
#include "kernels/cpu/widened_conv.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/workspace_text.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

constexpr int64_t kFloat = sizeof(float);

// The weight gradient of chunks of one shape, in float32, set or added to dw.
class ChunkGradient {
 public:
  virtual ~ChunkGradient() = default;
  virtual std::string Run(const float* dy, const float* x, float* dw, bool add, std::byte* workspace) = 0;
  virtual int64_t WorkspaceBytes() const = 0;
  virtual const std::string& name() const = 0;
};

// Workspace: [packed dw][scratch].
class ConvGradient final : public ChunkGradient {
 public:
  ConvGradient(const DnnlContext& context, const ConvProblem& problem, const ConvImplementation& impl)
      : conv_(context, ConvDirection::kGradWeight, problem, impl),
        unpack_(context, impl.packed_weights, problem.plain_weights),
        add_(context, impl.packed_weights, problem.plain_weights, true),
        scratch_at_(AlignedBytes(impl.packed_weights)),
        workspace_bytes_(impl.WorkspaceBytes()),
        name_(impl.name) {}

  std::string Run(const float* dy, const float* x, float* dw, bool add, std::byte* workspace) override {
    std::string error = conv_.RunGradWeight(dy, x, workspace, workspace + scratch_at_);
    return error.empty() ? (add ? add_ : unpack_).Run(workspace, dw) : error;
  }
  int64_t WorkspaceBytes() const override { return workspace_bytes_; }
  const std::string& name() const override { return name_; }

 private:
  ConvPrimitive conv_;
  WeightReorder unpack_, add_;
  int64_t scratch_at_, workspace_bytes_;
  std::string name_;
};

class ProductGradient final : public ChunkGradient {
 public:
  ProductGradient(PixelProduct product, PixelProduct adding)
      : product_(std::move(product)), adding_(std::move(adding)) {}

  std::string Run(const float* dy, const float* x, float* dw, bool add, std::byte* workspace) override {
    return (add ? adding_ : product_).Run(dy, x, dw, workspace);
  }
  int64_t WorkspaceBytes() const override {
    return std::max(product_.ScratchBytes(), adding_.ScratchBytes());
  }
  const std::string& name() const override { return product_.name(); }

 private:
  PixelProduct product_, adding_;
};

std::unique_ptr<ChunkGradient> MakeGradient(const DnnlContext& context, const ConvShape& shape, int threads,
                                            int64_t limit_bytes, std::string* why) {
  const ThreadScope scope(threads);
  if (shape.IsPointwise()) {
    const PixelProductShape s{shape.batch * shape.OutPixels(), shape.out_channels, shape.channels};
    auto product = PixelProduct::Choose(context, s, DType::kFloat32, false, threads, limit_bytes, why);
    auto adding = PixelProduct::Choose(context, s, DType::kFloat32, true, threads, limit_bytes, why);
    if (product && adding) return std::make_unique<ProductGradient>(std::move(*product), std::move(*adding));
  }
  const ConvProblem problem = ConvProblemOf(shape, ConvDirection::kGradWeight, {}, false);
  const auto impl = ChooseConv(context, ConvDirection::kGradWeight, problem, threads, limit_bytes, why);
  if (!impl) return nullptr;
  return std::make_unique<ConvGradient>(context, problem, *impl);
}

// The sum of the chunks' gradients, in their order. All threads work on one chunk, because a large dw
// has no room for a copy a thread. Workspace: [dy][x][what the gradient of a chunk needs].
class WidenedGradWeight final : public Kernel {
 public:
  WidenedGradWeight(const ConvSite& site, int threads)
      : threads_(threads),
        widened_(site.shape),
        chunks_(widened_.shape(), false, WidenedConvBytes(site.shape.KernelPixels()) / 2 / kFloat, 1) {
    const auto bytes = [](int64_t elements) { return RoundUp(SaturatingMul(elements, kFloat), 64); };
    dy_bytes_ = bytes(chunks_.y().Elements(chunks_.YRows(0)));
    x_bytes_ = bytes(chunks_.x().Elements(chunks_.XRows(0)));
  }

  // Makes the primitives. False if they do not fit, with the reason in *why.
  bool Make(const DnnlContext& context, int64_t limit_bytes, std::string* why) {
    const int64_t last = chunks_.Count() - 1, left = limit_bytes - WorkspaceBytes();
    for (const int64_t chunk : {int64_t{0}, last}) {
      if (chunk > 0 && chunks_.IsFull(chunk)) break;
      auto gradient = MakeGradient(context, chunks_.ShapeOf(chunk), threads_, left, why);
      if (!gradient) return false;
      gradient_bytes_ = std::max(gradient_bytes_, gradient->WorkspaceBytes());
      shapes_.push_back(std::move(gradient));
      if (last == 0) break;
    }
    return true;
  }

  std::string Run(const KernelArgs& args) override {
    const ThreadScope scope(threads_);
    auto* dy = args.workspace.data.as<float>();
    float* x = dy + dy_bytes_ / kFloat;
    std::string error;
    for (int64_t chunk = 0; chunk < chunks_.Count() && error.empty(); ++chunk) {
      WidenRows(args.inputs[0].as<BFloat16>(), chunks_.y(), chunks_.YRows(chunk), dy, threads_);
      widened_.WidenX(args.inputs[1].as<BFloat16>(), chunks_, chunk, x, threads_);
      ChunkGradient& gradient = chunks_.IsFull(chunk) ? *shapes_.front() : *shapes_.back();
      error = gradient.Run(dy, x, args.outputs[0].as<float>(), chunk > 0,
                           reinterpret_cast<std::byte*>(x) + x_bytes_);
    }
    return error;
  }

  int64_t WorkspaceBytes() const override {
    return SaturatingAdd(SaturatingAdd(dy_bytes_, x_bytes_), gradient_bytes_);
  }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return "float32 " + shapes_.front()->name() + ", " + std::to_string(threads_) + " threads, " +
           std::to_string(chunks_.Count()) + " chunks, " + WorkspaceText(WorkspaceBytes());
  }

 private:
  const int threads_;
  const WidenedShape widened_;
  const ConvChunks chunks_;
  std::vector<std::unique_ptr<ChunkGradient>> shapes_;  // full chunks, and the last ones
  int64_t dy_bytes_ = 0, x_bytes_ = 0, gradient_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> CreateWidenedGradWeight(const DnnlContext& context, const KernelSite& site,
                                                std::string* why) {
  const auto conv = ConvSiteOf(site, ConvDirection::kGradWeight, why);
  if (!conv) return nullptr;
  if (!conv->rounds) return Refuse(why, "no operand is bfloat16");
  std::string reason = "oneDNN has no fast implementation";
  try {
    if (auto kernel = CreateWidenedGradByThread(context, *conv, site.threads, site.workspace_bytes, &reason))
      return kernel;
    for (const int threads : ThreadLadder(site.threads)) {
      auto kernel = std::make_unique<WidenedGradWeight>(*conv, threads);
      if (kernel->Make(context, site.workspace_bytes, &reason)) return kernel;
    }
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  return Refuse(why, reason);
}

}  // namespace act
