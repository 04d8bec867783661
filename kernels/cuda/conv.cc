// Convolutions by the library, with plain channels-last activations. Its weights are [M,K..,C/group]: ours
// are transposed into the workspace, and its gradient of them out of it.
#include "kernels/cuda/bias_sum.h"
#include "kernels/cuda/conv_parts.h"
#include "kernels/cuda/conv_site.h"
#include "kernels/cuda/conv_tiles.h"
#include "kernels/cuda/convolution_problem.h"
#include "kernels/cuda/device_window.h"
#include "kernels/cuda/library_weights.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/widened_conv.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/workspace_text.h"

namespace act::cuda {
namespace {

using Direction = ConvolutionDirection;

// Of the library's workspace, after the weights.
constexpr int64_t kAlignment = 256;

// Whether y is as large as x, the pads and the window make it. A plan's file may say otherwise, and a library
// would then compute another convolution, or refuse without saying why.
bool CoversAllWindows(const ConvShape& s) {
  for (size_t a = 0; a < 3; ++a) {
    const int64_t room = s.in[a] + s.pad[a] + s.pad_end[a] - s.dilation[a] * (s.kernel[a] - 1) - 1;
    if (room < 0 || s.out[a] != room / s.stride[a] + 1) return false;
  }
  return true;
}

// Workspace: [the library's weights][its own].
class LibraryConv final : public Kernel {
 public:
  LibraryConv(const CudaContext& context, Direction direction, std::vector<ConvPart> parts,
              const LibraryWeights& weights, int64_t weights_bytes, std::optional<BiasSum> bias, bool swaps)
      : context_(context),
        direction_(direction),
        parts_(std::move(parts)),
        weights_(weights),
        weights_bytes_(weights_bytes),
        bias_(std::move(bias)),
        swaps_(swaps) {}

  std::string Run(const KernelArgs& args) override {
    const ConvOperands at(direction_, args.inputs, args.outputs);
    std::byte *workspace = args.workspace.data.as<std::byte>(), *y = at.y->as<std::byte>(),
              *w = weights_.AreOurs() ? at.w->as<std::byte>() : workspace;
    const bool moves = !weights_.AreOurs(), gradient = direction_ == Direction::kWeightGradient;
    if (moves && !gradient)
      if (Status status = weights_.Run(at.w->as<void>(), w); !status.empty()) return status;
    for (const ConvPart& part : parts_) {
      const auto samples = [&](const TensorView& t) {
        return t.as<std::byte>() + part.first * (t.bytes / t.dims[0]);
      };
      std::byte* const operands[4] = {samples(swaps_ ? *at.y : *at.x), w, samples(swaps_ ? *at.x : *at.y),
                                      nullptr};
      if (Status status = part.call->Enqueue(context_.stream, operands, workspace + weights_bytes_);
          !status.empty())
        return status;
    }
    if (moves && gradient) return weights_.Run(w, at.w->as<void>());
    return at.bias ? bias_->Run(y, at.bias->as<float>(), y, at.y->elements) : "";
  }
  int64_t WorkspaceBytes() const override { return weights_bytes_ + cuda::WorkspaceBytes(parts_); }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return parts_[0].call->engine() + PartsText(parts_) + ", " + WorkspaceText(WorkspaceBytes());
  }

 private:
  const CudaContext& context_;
  Direction direction_;
  std::vector<ConvPart> parts_;
  LibraryWeights weights_;
  int64_t weights_bytes_;
  std::optional<BiasSum> bias_;
  bool swaps_;  // the gradient of x is made by a forward pass
};

std::unique_ptr<Kernel> CreateLibraryConv(const CudaContext& context, Direction direction,
                                          const KernelSite& site, std::string* why) {
  const auto shape = ConvShapeAt(direction, site, why);
  if (!shape) return nullptr;
  const ConvOperands at(direction, site.inputs, site.outputs);
  if (at.x->elements == 0 || at.y->elements == 0 || at.w->elements == 0)
    return Refuse(why, "an empty tensor");
  if (!CoversAllWindows(*shape)) return Refuse(why, "y is not as large as its windows make it");
  if (at.bias && (at.bias->elements != shape->out_channels || at.y->elements >= kMaxCount))
    return Refuse(why, "a bias that it does not add");
  const bool bfloat16 = site.inputs[0].dtype == DType::kBFloat16,
             makes_bfloat16 = site.outputs[0].dtype == DType::kBFloat16;
  if (makes_bfloat16 && !bfloat16) return Refuse(why, "a bfloat16 result of float32");
  // The library has engines for equal types alone, and a bias is added before the result is rounded.
  if (bfloat16 && (!makes_bfloat16 || at.bias))
    return CreateWidenedConv(context, direction, site, *shape, why);
  // cuDNN's engines for the gradient of x without tensor cores first bring the operands into another order, or
  // are plain loops. Its forward engines do neither.
  const FloatMath math = bfloat16 ? FloatMath::kBFloat16 : context.conv_math;
  const auto forward = math == FloatMath::kStrict && direction == Direction::kInputGradient
                           ? InputGradientAsForward(*shape)
                           : std::nullopt;
  const auto weights =
      forward ? LibraryWeights::ForInputGradient(context, *shape, site.inputs[1].coded, why)
              : LibraryWeights::Of(context, *shape, direction, bfloat16, site.inputs[1].coded, why);
  if (!weights) return nullptr;
  const int64_t weights_bytes =
      weights->AreOurs() ? 0 : RoundUp(bfloat16 ? at.w->bytes / 2 : at.w->bytes, kAlignment);
  if (weights_bytes > site.workspace_bytes)
    return Refuse(why, "its weights need " + std::to_string(weights_bytes) + " bytes of workspace, " +
                           std::to_string(site.workspace_bytes) + " are given");
  ConvolutionProblem problem = forward ? *forward : ProblemOf(*shape, direction);
  problem.alignment = OperandAlignment(site);
  problem.math = math;
  auto parts = ChooseParts(context.engines, problem, site.workspace_bytes - weights_bytes, why);
  if (parts.empty()) return nullptr;
  std::optional<BiasSum> bias;
  if (at.bias) bias.emplace(context, shape->out_channels, DType::kFloat32);
  return std::make_unique<LibraryConv>(context, direction, std::move(parts), *weights, weights_bytes,
                                       std::move(bias), forward.has_value());
}

// A convolution by single pixels is a product: y [rows,M] = x [rows,C] w^T, dx = dy w, dw [M,C] = dy^T x.
std::unique_ptr<Kernel> CreatePointwise(const CudaContext& context, Direction direction,
                                        const KernelSite& site, std::string* why) {
  const auto shape = ConvShapeAt(direction, site, why);
  if (!shape) return nullptr;
  if (!shape->IsPointwise()) return Refuse(why, "not a dense convolution by single pixels");
  const int64_t rows = shape->batch * shape->OutPixels(), c = shape->channels, m = shape->out_channels;
  MatMulShape p;
  ProductOperands operands;
  switch (direction) {
    case Direction::kForward:
      p = {.m = rows, .n = m, .k = c, .a_m = c, .a_k = 1, .b_k = 1, .b_n = c};
      if (OptionalInput(site.inputs, 2)) operands.bias = 2;
      break;
    case Direction::kInputGradient:
      p = {.m = rows, .n = c, .k = m, .a_m = m, .a_k = 1, .b_k = c, .b_n = 1};
      break;
    case Direction::kWeightGradient:
      p = {.m = m, .n = c, .k = rows, .a_m = 1, .a_k = m, .b_k = c, .b_n = 1};
      break;
  }
  return CreateLibraryProduct(context, site, p, operands, context.conv_math, why);
}

}  // namespace

void RegisterCudaConv(KernelRegistry& registry, const CudaContext& context) {
  const auto add = [&](const std::string& op, const std::string& name, Direction direction) {
    const auto entry = [&](const std::string& prefix, auto create) {
      registry.Add(op,
                   {prefix + name, [&context, direction, create](const KernelSite& site, std::string* why) {
                      return create(context, direction, site, why);
                    }});
    };
    entry("cublaslt.pointwise_", CreatePointwise);
    entry("cudnn.", [](const CudaContext& library, Direction of, const KernelSite& site, std::string* why) {
      return CreateLibraryConv(library, of, WithNumbers(site, 1), why);
    });
    entry("cuda.", CreateConvTiles);
  };
  add("Conv", "conv", Direction::kForward);
  add("ConvGradInput", "conv_grad_input", Direction::kInputGradient);
  add("ConvGradWeight", "conv_grad_weight", Direction::kWeightGradient);
}

}  // namespace act::cuda
