#include <algorithm>
#include <optional>

#include "kernels/cpu/pixel_product.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/cpu/widened_conv.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/workspace_text.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

constexpr int64_t kFloat = sizeof(float);

ACT_VECTOR_CLONES
void AddTo(float* sum, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += from[i];
}

// The weight gradient where dw is small: each thread has a sum of its own over its chunks, every
// `threads`-th one. The sums are added in the order of the threads.
// Workspace: [dy, x, sum, gradient of a chunk, scratch] of each thread.
class WidenedGradByThread final : public Kernel {
 public:
  WidenedGradByThread(const ConvSite& site, int threads)
      : threads_(threads),
        widened_(site.shape),
        chunks_(widened_.shape(), false,
                std::min(WidenedThreadBytes(site.shape.KernelPixels()),
                         WidenedConvBytes(site.shape.KernelPixels()) / 2 / threads) /
                    kFloat,
                threads),
        pointwise_(widened_.shape().IsPointwise()),
        most_sum_bytes_(WidenedConvBytes(site.shape.KernelPixels()) / 2),
        dy_bytes_(AlignedFloats(chunks_.y().Elements(chunks_.YRows(0)))),
        x_bytes_(AlignedFloats(chunks_.x().Elements(chunks_.XRows(0)))) {}

  // Makes the primitives. False if they do not fit, with the reason in *why.
  bool Make(const DnnlContext& context, int64_t limit_bytes, std::string* why) {
    const int64_t last = chunks_.Count() - 1;
    const int64_t left = (limit_bytes - WorkspaceBytes()) / threads_;
    for (const int64_t chunk : {int64_t{0}, last}) {
      if (chunk > 0 && chunks_.IsFull(chunk)) break;
      Shape shape;
      const bool made = pointwise_ ? MakeProducts(context, chunks_.ShapeOf(chunk), left, shape, why)
                                   : MakeConvs(context, chunks_.ShapeOf(chunk), left, shape, why);
      if (!made) return false;
      shapes_.push_back(std::move(shape));
      if (last == 0) break;
    }
    if (SaturatingMul(threads_, sum_bytes_ + gradient_bytes_) > most_sum_bytes_) {
      *why = "a sum of each thread takes too much";
      return false;
    }
    if (WorkspaceBytes() <= limit_bytes) return true;
    *why = TooLittleWorkspace(WorkspaceBytes(), limit_bytes);
    return false;
  }

  std::string Run(const KernelArgs& args) override {
    const ThreadScope scope(threads_);
    std::string error;
#pragma omp parallel for schedule(static, 1) num_threads(threads_)
    for (int t = 0; t < threads_; ++t) {
      std::string failed = RunThread(args, t);
      if (failed.empty()) continue;
#pragma omp critical
      error = std::move(failed);
    }
    if (!error.empty()) return error;
    const int64_t n = sum_bytes_ / kFloat, part = RoundUp(CeilDiv(n, threads_), 32);
#pragma omp parallel for schedule(static, 1) num_threads(threads_)
    for (int t = 0; t < threads_; ++t)
      for (int other = 1; other < threads_; ++other)
        AddTo(Sum(args, 0) + t * part, Sum(args, other) + t * part,
              std::clamp<int64_t>(n - t * part, 0, part));
    return unpack_.Run(Sum(args, 0), args.outputs[0].as<void>());
  }

  int64_t WorkspaceBytes() const override { return SaturatingMul(threads_, ThreadBytes()); }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return "float32 " + name_ + ", " + std::to_string(threads_) + " threads with sums of their own, " +
           std::to_string(chunks_.Count()) + " chunks, " + WorkspaceText(WorkspaceBytes());
  }

 private:
  // Full chunks, or the last ones. By thread.
  struct Shape {
    std::vector<ConvPrimitive> convs;
    std::vector<PixelProduct> products, adding;
  };

  bool MakeProducts(const DnnlContext& context, const ConvShape& s, int64_t limit_bytes, Shape& shape,
                    std::string* why) {
    const PixelProductShape product{s.OutPixels(), s.out_channels, s.channels};
    for (int t = 0; t < threads_; ++t)
      for (const bool add : {false, true}) {
        auto made = PixelProduct::Choose(context, product, DType::kFloat32, add, 1, limit_bytes, why);
        if (!made) return false;
        scratch_bytes_ = std::max(scratch_bytes_, made->ScratchBytes());
        (add ? shape.adding : shape.products).push_back(std::move(*made));
      }
    const dnnl::memory::desc plain({s.out_channels, s.channels}, dnnl::memory::data_type::f32,
                                   dnnl::memory::format_tag::ab);
    if (shapes_.empty()) TakeLayout(context, shape.products[0].name(), plain, plain);
    return true;
  }

  bool MakeConvs(const DnnlContext& context, const ConvShape& s, int64_t limit_bytes, Shape& shape,
                 std::string* why) {
    ConvProblem problem = ConvProblemOf(s, ConvDirection::kGradWeight, {}, false);
    // Both shapes are added up in one layout.
    if (!shapes_.empty()) problem.any_weights = layout_;
    const auto impl = ChooseConv(context, ConvDirection::kGradWeight, problem, 1, limit_bytes, why);
    if (!impl) return false;
    for (int t = 0; t < threads_; ++t)
      shape.convs.emplace_back(context, ConvDirection::kGradWeight, problem, *impl);
    scratch_bytes_ = std::max(scratch_bytes_, AlignedBytes(impl->scratch));
    if (shapes_.empty()) TakeLayout(context, impl->name, impl->packed_weights, problem.plain_weights);
    return true;
  }

  void TakeLayout(const DnnlContext& context, const std::string& name, const dnnl::memory::desc& layout,
                  const dnnl::memory::desc& plain) {
    const ThreadScope scope(threads_);
    name_ = name;
    layout_ = layout;
    sum_bytes_ = AlignedBytes(layout);
    gradient_bytes_ = pointwise_ ? 0 : sum_bytes_;
    unpack_ = WeightReorder(context, layout, plain);
  }

  static int64_t AlignedFloats(int64_t floats) { return RoundUp(SaturatingMul(floats, kFloat), 64); }
  int64_t ThreadBytes() const {
    return SaturatingAdd(SaturatingAdd(dy_bytes_, x_bytes_), sum_bytes_ + gradient_bytes_ + scratch_bytes_);
  }
  float* Dy(const KernelArgs& args, int thread) const {
    return reinterpret_cast<float*>(args.workspace.data.as<std::byte>() + thread * ThreadBytes());
  }
  float* Sum(const KernelArgs& args, int thread) const {
    return Dy(args, thread) + (dy_bytes_ + x_bytes_) / kFloat;
  }

  std::string RunThread(const KernelArgs& args, int thread) {
    const auto t = static_cast<size_t>(thread);
    float *dy = Dy(args, thread), *x = dy + dy_bytes_ / kFloat, *sum = Sum(args, thread);
    float* gradient = sum + sum_bytes_ / kFloat;
    float* scratch = gradient + gradient_bytes_ / kFloat;
    if (thread >= chunks_.Count()) std::fill_n(sum, sum_bytes_ / kFloat, 0.0f);
    std::string error;
    for (int64_t chunk = thread; chunk < chunks_.Count() && error.empty(); chunk += threads_) {
      WidenRows(args.inputs[0].as<BFloat16>(), chunks_.y(), chunks_.YRows(chunk), dy, 1);
      widened_.WidenX(args.inputs[1].as<BFloat16>(), chunks_, chunk, x, 1);
      Shape& shape = chunks_.IsFull(chunk) ? shapes_.front() : shapes_.back();
      const bool first = chunk == thread;
      if (pointwise_) {
        error = (first ? shape.products : shape.adding)[t].Run(dy, x, sum, scratch);
      } else {
        error = shape.convs[t].RunGradWeight(dy, x, first ? sum : gradient, scratch);
        if (!first) AddTo(sum, gradient, sum_bytes_ / kFloat);
      }
    }
    return error;
  }

  const int threads_;
  const WidenedShape widened_;
  const ConvChunks chunks_;
  const bool pointwise_;
  const int64_t most_sum_bytes_;  // of all threads together
  const int64_t dy_bytes_, x_bytes_;
  std::string name_;
  dnnl::memory::desc layout_;  // of sums
  WeightReorder unpack_;
  std::vector<Shape> shapes_;
  int64_t sum_bytes_ = 0, gradient_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> CreateWidenedGradByThread(const DnnlContext& context, const ConvSite& site,
                                                  int threads, int64_t limit_bytes, std::string* why) {
  auto kernel = std::make_unique<WidenedGradByThread>(site, threads);
  return kernel->Make(context, limit_bytes, why) ? std::move(kernel) : nullptr;
}

}  // namespace act
