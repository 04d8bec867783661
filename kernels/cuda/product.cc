#include "kernels/cuda/product.h"

#include <algorithm>
#include <numeric>

#include "kernels/cuda/bias_sum.h"
#include "kernels/cuda/conversion.h"
#include "kernels/cuda/float_type.h"
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

constexpr int64_t kAlignment = 256;  // of what lies in the workspace

// A float32 factor beside a bfloat16 one: it is rounded into the workspace.
struct RoundedFactor {
  int32_t operand = -1;  // of the call: 0 is a, 1 is b; -1: none
  std::optional<Conversion> round;
  int64_t bytes = 0;
};

RoundedFactor RoundedFactorOf(const CudaContext& context, const TensorView& a, const TensorView& b) {
  RoundedFactor factor;
  if (a.dtype == b.dtype) return factor;
  factor.operand = a.dtype == DType::kFloat32 ? 0 : 1;
  const TensorView& t = factor.operand == 0 ? a : b;
  factor.round.emplace(context, DType::kFloat32, DType::kBFloat16, t.elements, IsAlignedForVectors(t));
  factor.bytes = RoundUp(t.elements * ByteSize(DType::kBFloat16), kAlignment);
  return factor;
}

// One use of an engine. Offsets are in bytes: of operands, and of c in the result or among the sums.
struct Piece {
  int64_t a = 0, b = 0, c = 0;
  size_t call = 0;
  int64_t y = 0, elements = 0;  // of the result: what all sums so far become; 0: there are more to come
};

// Workspace: [a factor, rounded][sums in float32, where a bias is added before they are rounded][the library's].
struct ProductPlan {
  RoundedFactor factor = {};
  int64_t sums_at = 0, library_at = 0, library_bytes = 0;
  std::vector<std::shared_ptr<LibraryCall>> calls = {};
  std::shared_ptr<LibraryCall> adding =
      {};  // where tiles go on from a sum: the same product, added to the result
  std::vector<Piece> pieces = {};
  std::optional<BiasSum> bias = {};
};

class LibraryProduct final : public Kernel {
 public:
  LibraryProduct(const CudaContext& context, ProductPlan plan, ProductOperands operands)
      : context_(context), plan_(std::move(plan)), operands_(operands) {}

  std::string Run(const KernelArgs& args) override {
    auto *workspace = args.workspace.data.as<std::byte>(), *y = args.outputs[0].as<std::byte>(),
         *bias = operands_.bias ? args.inputs[*operands_.bias].as<std::byte>() : nullptr;
    std::byte* factors[2] = {args.inputs[operands_.a].as<std::byte>(),
                             args.inputs[operands_.b].as<std::byte>()};
    if (plan_.factor.round) {
      std::byte*& factor = factors[plan_.factor.operand];
      if (Status s = plan_.factor.round->Run(factor, workspace); !s.empty()) return s;
      factor = workspace;
    }
    std::byte* c = plan_.bias ? workspace + plan_.sums_at : y;
    for (const Piece& at : plan_.pieces) {
      std::byte* const pointers[4] = {factors[0] + at.a, factors[1] + at.b, c + at.c,
                                      plan_.bias ? nullptr : bias};
      LibraryCall& call = args.goes_on ? *plan_.adding : *plan_.calls[at.call];
      if (Status s = call.Enqueue(context_.stream, pointers, workspace + plan_.library_at); !s.empty())
        return s;
      if (!plan_.bias || at.elements == 0) continue;
      if (Status s = plan_.bias->Run(c, reinterpret_cast<float*>(bias), y + at.y, at.elements); !s.empty())
        return s;
    }
    return "";
  }
  int64_t WorkspaceBytes() const override { return plan_.library_at + plan_.library_bytes; }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override { return plan_.calls[0]->engine(); }

 private:
  const CudaContext& context_;
  const ProductPlan plan_;
  ProductOperands operands_;
};

// Engines for the products of `problem` that begin at `starts`. If sums are rounded after a bias is added, a
// part of the rows at a time. Returns a reason, or an empty string.
std::string PlanPieces(const CudaContext& context, const MatMulShape& s, ProductProblem problem,
                       const std::vector<Start>& starts, int64_t factor_bytes, int64_t c_bytes,
                       int64_t workspace_bytes, ProductPlan& plan) {
  constexpr int64_t kFloat = sizeof(float), kRows = 64;  // so many rows keep addresses aligned
  int64_t rows = s.m;                                    // at a time
  plan.library_at = plan.sums_at;
  if (plan.bias) {
    // All rows, or so many that the library gets half.
    const int64_t fit = (workspace_bytes - plan.sums_at) / (s.n * kFloat);
    if (s.m * s.Batches() > fit) rows = s.Batches() > 1 ? 0 : fit / 2 / kRows * kRows;
    if (rows == 0 || rows * s.Batches() * s.n >= kMaxCount) return "no workspace for its sums";
    plan.library_at += RoundUp(rows * s.Batches() * s.n * kFloat, kAlignment);
  }
  for (int64_t first = 0; first < s.m; first += rows) {
    const int64_t count = std::min(rows, s.m - first);
    if (plan.calls.empty() || count != problem.m) {
      problem.m = count;
      std::string why;
      std::shared_ptr<LibraryCall> call =
          context.toolkit.products().Choose(problem, workspace_bytes - plan.library_at, &why);
      if (!call) return why;
      plan.library_bytes = std::max(plan.library_bytes, call->workspace_bytes());
      plan.calls.push_back(std::move(call));
    }
    for (const Start& at : starts)
      plan.pieces.push_back({.a = (at.a + first * s.a_m) * factor_bytes,
                             .b = at.b * factor_bytes,
                             .c = plan.bias ? at.y * kFloat : (at.y + first * s.n) * c_bytes,
                             .call = plan.calls.size() - 1});
    plan.pieces.back().y = first * s.n * c_bytes;
    plan.pieces.back().elements = s.Batches() * count * s.n;
  }
  return "";
}

// For the tiles after the first, of a sum over samples: one product of two matrices, without a bias.
void AddAccumulating(const CudaContext& context, ProductProblem problem, int64_t workspace_bytes,
                     ProductPlan& plan, std::string* why) {
  problem.accumulates = true;
  plan.adding = context.toolkit.products().Choose(problem, workspace_bytes - plan.library_at, why);
  if (plan.adding) plan.library_bytes = std::max(plan.library_bytes, plan.adding->workspace_bytes());
}

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
  const TensorView &a = site.inputs[operands.a], &b = site.inputs[operands.b], &y = site.outputs[0];
  if (y.elements == 0 || s.k == 0) return Refuse(why, "an empty tensor");
  const bool bfloat16 = a.dtype == DType::kBFloat16 || b.dtype == DType::kBFloat16,
             makes_bfloat16 = y.dtype == DType::kBFloat16;
  if (makes_bfloat16 && !bfloat16) return Refuse(why, "a bfloat16 result of float32");
  ProductPlan plan{.factor = RoundedFactorOf(context, a, b)};
  plan.sums_at = plan.factor.bytes;
  if (plan.sums_at > site.workspace_bytes) return Refuse(why, "no workspace for a rounded factor");
  // The library's bias has the type of its result: the sums get ours.
  if (makes_bfloat16 && operands.bias) plan.bias.emplace(context, s.n, y.dtype);
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
  problem.has_bias = operands.bias && !plan.bias;
  problem.math = bfloat16 ? FloatMath::kBFloat16 : math;
  problem.bfloat16_result = makes_bfloat16 && !plan.bias;
  BatchAxes axes = BatchAxesOf(s);
  std::vector<Start> starts = CallsOf(axes, s.m * s.n, problem);
  if (starts.size() > kMaxCalls) return Refuse(why, "its operands broadcast in different ways");
  problem.alignment = OperandAlignment(site);
  const int64_t factor_bytes = ByteSize(bfloat16 ? DType::kBFloat16 : DType::kFloat32);
  for (const Start& at : starts)
    for (const int64_t bytes : {at.a * factor_bytes, at.b * factor_bytes, at.y * ByteSize(y.dtype)})
      problem.alignment = std::gcd(problem.alignment, bytes);
  *why = PlanPieces(context, s, problem, starts, factor_bytes, ByteSize(y.dtype), site.workspace_bytes, plan);
  if (why->empty() && site.goes_on) AddAccumulating(context, problem, site.workspace_bytes, plan, why);
  if (!why->empty()) return nullptr;
  return std::make_unique<LibraryProduct>(context, std::move(plan), operands);
}

std::unique_ptr<Kernel> CreateProductTiles(const CudaContext& context, const KernelSite& site,
                                           const MatMulShape& shape, ProductOperands operands,
                                           std::string* why) {
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
      "Product" +
          TemplateArguments(flag(s.a_k == 1), flag(s.b_n == 1), FloatType(site.inputs[operands.a].dtype),
                            FloatType(site.inputs[operands.b].dtype), FloatType(site.outputs[0].dtype)));
  return MakeKernel([p, kernel, blocks, operands](const KernelArgs& args) mutable -> std::string {
    p.a = args.inputs[operands.a].as<void>();
    p.b = args.inputs[operands.b].as<void>();
    p.bias = operands.bias ? args.inputs[*operands.bias].as<float>() : nullptr;
    p.y = args.outputs[0].as<void>();
    p.goes_on = args.goes_on;
    return kernel.Launch(blocks, p);
  });
}

}  // namespace act::cuda
