#include "kernels/cuda/product.h"

#include <algorithm>
#include <numeric>

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/product_parameters.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act::cuda {
namespace {

constexpr int64_t kVectorBytes = 16;
// The library takes one stride from product to product. Where operands broadcast in different ways, it is
// called several times, at most so many.
constexpr int64_t kMaxCalls = 16;

// The batch axes of a product, with as few axes as describe both operands. `y` is dense, in matrices.
struct BatchAxes {
  std::vector<int64_t> dims, a, b, y;
};

BatchAxes BatchAxesOf(const MatMulShape& s) {
  BatchAxes axes;
  const std::vector<int64_t> dense = RowMajorStrides(s.a_batch.dims);
  for (size_t d = 0; d < dense.size(); ++d) {
    const int64_t extent = s.a_batch.dims[d], a = s.a_batch.strides[d], b = s.b_batch.strides[d];
    if (extent == 1) continue;
    if (!axes.dims.empty() && axes.a.back() == a * extent && axes.b.back() == b * extent) {
      axes.dims.back() *= extent;
      axes.a.back() = a;
      axes.b.back() = b;
      axes.y.back() = dense[d];
    } else {
      axes.dims.push_back(extent);
      axes.a.push_back(a);
      axes.b.push_back(b);
      axes.y.push_back(dense[d]);
    }
  }
  return axes;
}

// Where a call begins, in elements.
struct Start {
  int64_t a = 0, b = 0, y = 0;
};

// Takes the longest axis out of `axes`, for the library, and returns where the calls for all others begin.
std::vector<Start> CallsOf(BatchAxes& axes, int64_t matrix, ProductProblem& problem) {
  if (!axes.dims.empty()) {
    const auto longest = std::max_element(axes.dims.begin(), axes.dims.end()) - axes.dims.begin();
    const auto take = [longest](std::vector<int64_t>& of) {
      const int64_t value = of[static_cast<size_t>(longest)];
      of.erase(of.begin() + longest);
      return value;
    };
    problem.batch = take(axes.dims);
    problem.stride_a = take(axes.a);
    problem.stride_b = take(axes.b);
    problem.stride_c = take(axes.y) * matrix;
  }
  const Strided a{axes.dims, axes.a}, b{axes.dims, axes.b}, y{axes.dims, axes.y};
  std::vector<Start> starts;
  for (int64_t i = 0; i < std::min(a.Elements(), kMaxCalls + 1); ++i)
    starts.push_back({a.At(i), b.At(i), y.At(i) * matrix});
  return starts;
}

class LibraryProduct final : public Kernel {
 public:
  LibraryProduct(const CudaContext& context, std::unique_ptr<LibraryCall> call, std::vector<Start> starts,
                 ProductOperands operands)
      : context_(context), call_(std::move(call)), starts_(std::move(starts)), operands_(operands) {}

  std::string Run(const KernelArgs& args) override {
    float *a = args.inputs[operands_.a].as<float>(), *b = args.inputs[operands_.b].as<float>(),
          *bias = operands_.bias ? args.inputs[*operands_.bias].as<float>() : nullptr,
          *y = args.outputs[0].as<float>();
    const auto bytes = [](float* p) { return reinterpret_cast<std::byte*>(p); };
    for (const Start& at : starts_) {
      std::byte* const pointers[4] = {bytes(a + at.a), bytes(b + at.b), bytes(y + at.y), bytes(bias)};
      if (Status s = call_->Enqueue(context_.stream, pointers, args.workspace.data.as<std::byte>());
          !s.empty())
        return s;
    }
    return "";
  }
  int64_t WorkspaceBytes() const override { return call_->workspace_bytes(); }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override { return call_->engine(); }

 private:
  const CudaContext& context_;
  std::unique_ptr<LibraryCall> call_;
  std::vector<Start> starts_;
  ProductOperands operands_;
};

}  // namespace

int64_t OperandAlignment(const KernelSite& site) {
  int64_t alignment = kVectorBytes;
  if (site.batch == site.whole_batch) return alignment;
  for (const auto* operands : {&site.inputs, &site.outputs})
    for (const TensorView& t : *operands)
      if (!t.dims.empty() && t.elements > 0 && t.dims[0] == site.batch)
        alignment = std::gcd(alignment, t.bytes / t.dims[0]);
  return alignment;
}

std::unique_ptr<Kernel> CreateLibraryProduct(const CudaContext& context, const KernelSite& site,
                                             const MatMulShape& shape, ProductOperands operands,
                                             FloatMath math, std::string* why) {
  const MatMulShape s = Folded(shape);
  if (site.outputs[0].elements == 0 || s.k == 0) return Refuse(why, "an empty tensor");
  ProductProblem problem;
  problem.m = s.m;
  problem.n = s.n;
  problem.k = s.k;
  problem.trans_a = s.a_k != 1;
  problem.trans_b = s.b_n != 1;
  // Of a single row or column, the distance to the next has no meaning, and may be too short to be one.
  problem.lead_a = problem.trans_a ? std::max(s.a_k, s.m) : std::max(s.a_m, s.k);
  problem.lead_b = problem.trans_b ? std::max(s.b_n, s.k) : std::max(s.b_k, s.n);
  problem.lead_c = s.n;
  problem.has_bias = operands.bias.has_value();
  problem.math = math;
  BatchAxes axes = BatchAxesOf(s);
  std::vector<Start> starts = CallsOf(axes, s.m * s.n, problem);
  if (starts.size() > kMaxCalls) return Refuse(why, "its operands broadcast in different ways");
  problem.alignment = OperandAlignment(site);
  for (const Start& at : starts)
    for (const int64_t elements : {at.a, at.b, at.y})
      problem.alignment = std::gcd(problem.alignment, elements * static_cast<int64_t>(sizeof(float)));
  auto call = context.toolkit.products().Choose(problem, site.workspace_bytes, why);
  if (!call) return nullptr;
  return std::make_unique<LibraryProduct>(context, std::move(call), std::move(starts), operands);
}

std::unique_ptr<Kernel> CreateProductTiles(const CudaContext& context, const MatMulShape& shape,
                                           ProductOperands operands, std::string* why) {
  const MatMulShape s = Folded(shape);
  const BatchAxes axes = BatchAxesOf(s);
  const auto tiles = [](int64_t extent) { return (extent + kTile - 1) / kTile; };
  const int64_t blocks = SaturatingMul(s.Batches(), SaturatingMul(tiles(s.m), tiles(s.n)));
  if (axes.dims.size() > kMaxAxes) return Refuse(why, "more than 8 axes");
  if (std::max({s.m, s.n, s.k, blocks}) >= kMaxCount)
    return Refuse(why, "2^31 rows, columns or tiles, or more");
  ProductParameters p;
  p.batch.count = static_cast<int32_t>(axes.dims.size());
  for (size_t d = 0; d < axes.dims.size(); ++d) {
    p.batch.dims[d] = DivisorOf(axes.dims[d]);
    p.batch.from[d] = axes.a[d];
    p.batch.to[d] = axes.b[d];
  }
  p.m = static_cast<int32_t>(s.m);
  p.n = static_cast<int32_t>(s.n);
  p.k = static_cast<int32_t>(s.k);
  p.a_m = s.a_m;
  p.a_k = s.a_k;
  p.b_k = s.b_k;
  p.b_n = s.b_n;
  p.tiles_m = DivisorOf(tiles(s.m));
  p.tiles_n = DivisorOf(tiles(s.n));
  const auto flag = [](bool along_row) { return along_row ? "true" : "false"; };
  const OwnKernel<ProductParameters> kernel(
      context, "product", "ProductParameters", "product",
      std::string("Product<") + flag(s.a_k == 1) + ", " + flag(s.b_n == 1) + ">");
  return MakeKernel([p, kernel, blocks, operands](const KernelArgs& args) mutable -> std::string {
    p.a = args.inputs[operands.a].as<float>();
    p.b = args.inputs[operands.b].as<float>();
    p.bias = operands.bias ? args.inputs[*operands.bias].as<float>() : nullptr;
    p.y = args.outputs[0].as<float>();
    return kernel.Launch(blocks, p);
  });
}

}  // namespace act::cuda
