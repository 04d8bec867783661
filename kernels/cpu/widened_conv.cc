#include "kernels/cpu/widened_conv.h"

#include <algorithm>

#include "kernels/cpu/convert_bfloat16.h"
#include "kernels/cpu/weight_packing.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/workspace_text.h"
#include "runtime/plan/workspace.h"

namespace act {

namespace {

constexpr int64_t kFloat = sizeof(float);

// y of x, or dx of dy. Each thread widens, computes and rounds chunks of its own, in its part of the
// workspace: [packed weights, for each layout][thread 0: operand, result, scratch][thread 1: ..]... Packing comes before,
// and may use the threads' parts.
class WidenedConv final : public Kernel {
 public:
  // coded: of the weights, if they are a code; else null.
  WidenedConv(const ConvSite& site, ConvDirection direction, int threads, const CodedParameter* coded)
      : site_(site),
        coded_(coded),
        forward_(direction == ConvDirection::kForward),
        threads_(threads),
        widened_(site.shape),
        // A gradient of x has all of its pixels.
        chunks_(forward_ || widened_.ReadsAllOfX() ? widened_.shape() : site.shape, !forward_,
                std::min(WidenedThreadBytes(site.shape.KernelPixels()),
                         WidenedConvBytes(site.shape.KernelPixels()) / threads) /
                    kFloat,
                threads),
        from_(forward_ ? chunks_.x() : chunks_.y()),
        to_(forward_ ? chunks_.y() : chunks_.x()),
        rounds_((forward_ ? site.types.y : site.types.x) == DType::kBFloat16) {
    const auto bytes = [](int64_t elements) { return RoundUp(SaturatingMul(elements, kFloat), 64); };
    operand_bytes_ = bytes(from_.Elements(Read(0)));
    result_bytes_ = rounds_ ? bytes(to_.Elements(Made(0))) : 0;
  }

  // Makes the primitives. False if they do not fit, with the reason in *why.
  bool Make(const DnnlContext& context, int64_t limit_bytes, std::string* why) {
    const auto direction = forward_ ? ConvDirection::kForward : ConvDirection::kGradInput;
    const int64_t last = chunks_.Count() - 1;
    for (const int64_t chunk : {int64_t{0}, last}) {
      if (chunk > 0 && chunks_.IsFull(chunk)) break;
      ConvProblem problem = ConvProblemOf(chunks_.ShapeOf(chunk), direction, {}, site_.has_bias);
      // The weights are packed once for all threads, so what all threads need is checked below.
      const int64_t left = limit_bytes - WorkspaceBytes();
      std::optional<ConvImplementation> impl;
      if (!shapes_.empty()) {  // without a second copy of the weights, if there is a way
        ConvProblem alike = problem;
        alike.any_weights = shapes_[0].layout;
        impl = ChooseConv(context, direction, alike, 1, left + packed_bytes_, why);
      }
      if (!impl) impl = ChooseConv(context, direction, problem, 1, left, why);
      if (!impl) return false;
      const bool same = !shapes_.empty() && shapes_[0].layout == impl->packed_weights;
      Shape shape{impl->packed_weights, same ? 0 : packed_bytes_, {}, {}};
      if (!same) {
        const ThreadScope scope(threads_);
        auto packing = WeightPacking::Of(context, problem.plain_weights, impl->packed_weights, coded_, why);
        if (!packing) return false;
        shape.pack = std::move(*packing);
        packing_bytes_ = std::max(packing_bytes_, shape.pack.ScratchBytes());
        packed_bytes_ += AlignedBytes(impl->packed_weights);
      }
      for (int t = 0; t < threads_; ++t) shape.of_threads.emplace_back(context, direction, problem, *impl);
      scratch_bytes_ = std::max(scratch_bytes_, AlignedBytes(impl->scratch));
      if (shapes_.empty()) name_ = impl->name;
      shapes_.push_back(std::move(shape));
      if (last == 0) break;
    }
    if (WorkspaceBytes() <= limit_bytes) return true;
    *why = TooLittleWorkspace(WorkspaceBytes(), limit_bytes);
    return false;
  }

  std::string Run(const KernelArgs& args) override {
    const ThreadScope scope(threads_);
    auto* packed = args.workspace.data.as<std::byte>();
    for (Shape& shape : shapes_) {
      if (shape.pack.empty()) continue;
      auto* weights = packed + shape.packed_at;
      if (std::string error = shape.pack.Run(args.inputs[1].as<void>(), weights, packed + packed_bytes_);
          !error.empty())
        return error;
      // Rounded factors, as in oneDNN's bfloat16 convolutions.
      RoundInPlace(reinterpret_cast<float*>(weights), static_cast<int64_t>(shape.layout.get_size()) / kFloat,
                   threads_);
    }
    std::string error;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
    for (int64_t chunk = 0; chunk < chunks_.Count(); ++chunk) {
      std::string failed = RunChunk(args, chunk, omp_get_thread_num());
      if (failed.empty()) continue;
#pragma omp critical
      error = std::move(failed);
    }
    return error;
  }

  int64_t WorkspaceBytes() const override {
    return SaturatingAdd(packed_bytes_, std::max(SaturatingMul(threads_, ThreadBytes()), packing_bytes_));
  }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return "float32 " + name_ + ", " + std::to_string(threads_) + " threads, " +
           std::to_string(chunks_.Count()) + " chunks, " + WorkspaceText(WorkspaceBytes());
  }

 private:
  // Full chunks, or the last ones.
  struct Shape {
    dnnl::memory::desc layout;
    int64_t packed_at;
    WeightPacking pack;  // empty if it has the layout of the other shape
    std::vector<ConvPrimitive> of_threads;
  };

  ConvRows Read(int64_t chunk) const { return forward_ ? chunks_.XRows(chunk) : chunks_.YRows(chunk); }
  ConvRows Made(int64_t chunk) const { return forward_ ? chunks_.YRows(chunk) : chunks_.XRows(chunk); }
  int64_t ThreadBytes() const {
    return SaturatingAdd(SaturatingAdd(operand_bytes_, result_bytes_), scratch_bytes_);
  }

  std::string RunChunk(const KernelArgs& args, int64_t chunk, int thread) {
    Shape& shape = chunks_.IsFull(chunk) ? shapes_.front() : shapes_.back();
    auto* packed = args.workspace.data.as<std::byte>();
    std::byte* own = packed + packed_bytes_ + thread * ThreadBytes();
    auto* operand = reinterpret_cast<float*>(own);
    const auto* from = args.inputs[0].as<BFloat16>();
    if (forward_)
      widened_.WidenX(from, chunks_, chunk, operand, 1);
    else
      WidenRows(from, from_, Read(chunk), operand, 1);
    const ConvRows made = Made(chunk);
    float* result =
        rounds_ ? reinterpret_cast<float*>(own + operand_bytes_) : args.outputs[0].as<float>() + to_.At(made);
    std::string error = shape.of_threads[static_cast<size_t>(thread)].Run(
        operand, packed + shape.packed_at, site_.has_bias ? args.inputs[2].as<void>() : nullptr, result,
        own + operand_bytes_ + result_bytes_);
    if (rounds_)
      RoundToBFloat16(result, to_.Elements(made), args.outputs[0].as<BFloat16>() + to_.At(made), 1);
    return error;
  }

  const ConvSite site_;
  const CodedParameter* const coded_;  // while it is made
  const bool forward_;
  const int threads_;
  const WidenedShape widened_;
  const ConvChunks chunks_;
  const RowedTensor from_, to_;
  const bool rounds_;
  std::string name_;
  std::vector<Shape> shapes_;
  int64_t operand_bytes_ = 0, result_bytes_ = 0, packed_bytes_ = 0, scratch_bytes_ = 0, packing_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> CreateWidenedConv(const DnnlContext& context, ConvDirection direction,
                                          const KernelSite& site, std::string* why) {
  const auto conv = ConvSiteOf(site, direction, why);
  if (!conv) return nullptr;
  if (!conv->rounds) return Refuse(why, "no operand is bfloat16");
  std::string reason = "oneDNN has no fast implementation";
  try {
    for (const int threads : ThreadLadder(site.threads)) {
      auto kernel = std::make_unique<WidenedConv>(*conv, direction, threads, site.inputs[1].coded);
      if (kernel->Make(context, site.workspace_bytes, &reason)) return kernel;
    }
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  return Refuse(why, reason);
}

}  // namespace act
