// The library has engines whose operands are all of one type. So bfloat16 operands are widened to float32 in
// the workspace, a part of the samples at a time, for engines that multiply tf32: this has more bits than
// bfloat16, so that products are exact and sums float32. That is still the speed of tensor cores, and as fast
// again as the widened copies are read and written.
#include "kernels/cuda/widened_conv.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cuda/bias_sum.h"
#include "kernels/cuda/conv_parts.h"
#include "kernels/cuda/convolution_problem.h"
#include "kernels/cuda/library_weights.h"
#include "kernels/cuda/product.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/workspace_text.h"

namespace act::cuda {
namespace {

using Direction = ConvolutionDirection;

constexpr int64_t kAlignment = 256;  // of what lies in the workspace
// Of a part's samples, for the sake of tensor cores: smaller parts leave the card without work.
constexpr int kMostHalvings = 3;

// An activation, x or y.
struct Side {
  bool widens = false;
  int64_t sample_elements = 0, sample_bytes = 0;
  int64_t at = 0;  // in the workspace, if it is widened
  int64_t WideBytes(int64_t samples) const {
    return widens ? RoundUp(samples * sample_elements * static_cast<int64_t>(sizeof(float)), kAlignment) : 0;
  }
};

// How the samples are cut, and where things lie: [weights][x][y][the library's].
struct Layout {
  Side x, y;
  int64_t weights_bytes = 0, library_at = 0, library_bytes = 0;
  std::vector<ConvPart> parts;
};

Side SideOf(const TensorView& t) {
  return {.widens = t.dtype == DType::kBFloat16,
          .sample_elements = t.elements / t.dims[0],
          .sample_bytes = t.bytes / t.dims[0]};
}

// Engines for parts of at most `most` samples. False, with the reason in *why, if one of them has none within
// the workspace.
bool Cut(const CudaContext& context, ConvolutionProblem problem, int64_t workspace_bytes, int64_t most,
         Layout& layout, std::string* why) {
  const int64_t batch = problem.x[0], count = (batch + most - 1) / most,
                samples = (batch + count - 1) / count;
  layout.x.at = layout.weights_bytes;
  layout.y.at = layout.x.at + layout.x.WideBytes(samples);
  layout.library_at = layout.y.at + layout.y.WideBytes(samples);
  layout.parts =
      CutSamples(context.engines, std::move(problem), samples, workspace_bytes - layout.library_at, why);
  layout.library_bytes = cuda::WorkspaceBytes(layout.parts);
  return !layout.parts.empty();
}

class WidenedConv final : public Kernel {
 public:
  WidenedConv(const CudaContext& context, const KernelSite& site, Direction direction, Layout layout,
              std::optional<LibraryWeights> rounded, std::optional<LibraryWeights> back)
      : context_(context),
        direction_(direction),
        layout_(std::move(layout)),
        rounded_(std::move(rounded)),
        back_(std::move(back)) {
    const ConvOperands at(direction, site.inputs, site.outputs);
    if (rounded_)
      widen_weights_.emplace(context, DType::kBFloat16, DType::kFloat32, at.w->elements, /*vectors=*/true);
    for (const ConvPart& part : layout_.parts) {
      x_.push_back(ConversionOf(layout_.x, direction == Direction::kInputGradient, part));
      y_.push_back(ConversionOf(layout_.y, direction == Direction::kForward && !at.bias, part));
    }
    if (at.bias) bias_.emplace(context, at.y->dims.back(), at.y->dtype);
  }

  std::string Run(const KernelArgs& args) override {
    const ConvOperands at(direction_, args.inputs, args.outputs);
    auto* workspace = args.workspace.data.as<std::byte>();
    const bool gradient = direction_ == Direction::kWeightGradient;
    std::byte* w = layout_.weights_bytes > 0 ? workspace : at.w->as<std::byte>();
    Status status = gradient ? "" : BringWeights(at.w->as<void>(), workspace);
    for (size_t i = 0; i < layout_.parts.size() && status.empty(); ++i) status = RunPart(i, at, w, workspace);
    if (status.empty() && gradient && back_) status = back_->Run(w, at.w->as<void>());
    return status;
  }
  int64_t WorkspaceBytes() const override { return layout_.library_at + layout_.library_bytes; }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return layout_.parts[0].call->engine() + ", widened" + PartsText(layout_.parts) + ", " +
           WorkspaceText(WorkspaceBytes());
  }

 private:
  Conversion ConversionOf(const Side& side, bool is_result, const ConvPart& part) const {
    const DType wide = DType::kFloat32, narrow = DType::kBFloat16;
    return {context_, is_result ? wide : narrow, is_result ? narrow : wide,
            part.samples * side.sample_elements, side.sample_elements % 4 == 0};
  }

  // Rounds them where x will lie, and widens them to their own place.
  Status BringWeights(const void* from, std::byte* workspace) const {
    std::byte* narrow = workspace + layout_.x.at;
    const Status status = rounded_->Run(from, narrow);
    return status.empty() ? widen_weights_->Run(narrow, workspace) : status;
  }

  Status RunPart(size_t i, const ConvOperands& at, std::byte* w, std::byte* workspace) const {
    const ConvPart& part = layout_.parts[i];
    const auto samples = [&](const Side& side, const TensorView& t) {
      return t.as<std::byte>() + part.first * side.sample_bytes;
    };
    const auto wide = [&](const Side& side, const TensorView& t) {
      return side.widens ? workspace + side.at : samples(side, t);
    };
    std::byte *x = wide(layout_.x, *at.x), *y = wide(layout_.y, *at.y);
    const bool makes_x = direction_ == Direction::kInputGradient, makes_y = direction_ == Direction::kForward;
    Status status;
    if (layout_.x.widens && !makes_x) status = x_[i].Run(samples(layout_.x, *at.x), x);
    if (layout_.y.widens && !makes_y && status.empty()) status = y_[i].Run(samples(layout_.y, *at.y), y);
    std::byte* const operands[4] = {x, w, y, nullptr};
    if (status.empty())
      status = part.call->Enqueue(context_.stream, operands, workspace + layout_.library_at);
    if (!status.empty()) return status;
    if (at.bias)
      return bias_->Run(y, at.bias->as<float>(), samples(layout_.y, *at.y),
                        part.samples * layout_.y.sample_elements);
    return layout_.y.widens && makes_y ? y_[i].Run(y, samples(layout_.y, *at.y)) : "";
  }

  const CudaContext& context_;
  Direction direction_;
  Layout layout_;
  std::optional<LibraryWeights> rounded_, back_;  // to the library; a gradient, from it
  std::optional<Conversion> widen_weights_;
  std::vector<Conversion> x_, y_;  // of each part
  std::optional<BiasSum> bias_;
};

}  // namespace

std::unique_ptr<Kernel> CreateWidenedConv(const CudaContext& context, Direction direction,
                                          const KernelSite& site, const ConvShape& shape, std::string* why) {
  const ConvOperands at(direction, site.inputs, site.outputs);
  const bool gradient = direction == Direction::kWeightGradient;
  const auto weights = LibraryWeights::Of(context, shape, direction, !gradient, site.inputs[1].coded, why);
  if (!weights) return nullptr;
  Layout layout;
  layout.x = SideOf(*at.x);
  layout.y = SideOf(*at.y);
  layout.weights_bytes = weights->AreOurs() ? 0 : RoundUp(at.w->bytes, kAlignment);
  const int64_t room = site.workspace_bytes - layout.weights_bytes,
                sample = layout.x.WideBytes(1) + layout.y.WideBytes(1);
  if (room < sample || room < (gradient ? 0 : RoundUp(at.w->bytes / 2, kAlignment)))
    return Refuse(why, "the workspace of " + std::to_string(site.workspace_bytes) +
                           " bytes does not hold its weights and a widened sample");
  ConvolutionProblem problem = ProblemOf(shape, direction);
  problem.math = FloatMath::kTf32;
  problem.alignment = OperandAlignment(site);
  for (const Side* side : {&layout.x, &layout.y})
    if (!side->widens) problem.alignment = std::gcd(problem.alignment, side->sample_bytes);
  // The library gets a quarter, and more if that does not suffice for an engine, or for one with tensor cores.
  std::optional<Layout> best;
  int64_t most = std::clamp<int64_t>(room / 4 * 3 / std::max<int64_t>(sample, 1), 1, shape.batch);
  for (int halvings = 0; most > 0 && (!best || halvings <= kMostHalvings); most /= 2, ++halvings) {
    Layout cut = layout;
    if (!Cut(context, problem, site.workspace_bytes, most, cut, why)) continue;
    const bool tensor_cores = UseTensorCores(cut.parts);
    if (!best || tensor_cores) best = std::move(cut);
    if (tensor_cores) break;
  }
  if (!best) return nullptr;
  layout = std::move(*best);
  // Where x and y will lie, weights are rounded first.
  if (!gradient)
    layout.library_bytes = std::max(layout.library_bytes,
                                    layout.x.at + RoundUp(at.w->bytes / 2, kAlignment) - layout.library_at);
  using Weights = std::optional<LibraryWeights>;
  const bool moves = gradient && !weights->AreOurs();
  return std::make_unique<WidenedConv>(context, site, direction, std::move(layout),
                                       gradient ? Weights() : Weights(*weights),
                                       moves ? Weights(*weights) : Weights());
}

}  // namespace act::cuda
