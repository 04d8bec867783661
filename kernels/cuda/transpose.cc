#include "kernels/cuda/transpose.h"

#include <algorithm>

#include "kernels/cuda/registry.h"
#include "kernels/cuda/strided_copy.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/movement_shape.h"
#include "kernels/site/rows.h"

namespace act::cuda {
namespace {

// The smallest power of two that is at least `extent`, as its exponent. At most `limit`, at least 1.
int32_t LogOf(int64_t extent, int32_t limit) {
  int32_t log = 1;
  while (log < limit && (int64_t{1} << log) < extent) ++log;
  return log;
}

Divisor TilesOf(int64_t extent, int32_t log) { return DivisorOf((extent + (int64_t{1} << log) - 1) >> log); }

std::unique_ptr<Kernel> Create(const CudaContext& context, const KernelSite& site, std::string* why) {
  const TensorView &x = site.inputs[0], &y = site.outputs[0];
  const auto view = TransposeView(site.node->attrs, x, y, why);
  if (!view) return nullptr;
  const int64_t size = ByteSize(y.dtype);
  const Strided merged = Merged(*view);
  if (y.elements == 0 || merged.dims.empty() || merged.strides.back() == 1) {
    const Strided dense{merged.dims, RowMajorStrides(merged.dims)};
    const auto copy = StridedCopy::Of(context, merged, dense, size, CommonAlignment(x, y), why);
    if (!copy) return nullptr;
    return MakeKernel(
        [copy = *copy](const KernelArgs& args) { return copy.Run(args.inputs[0], args.outputs[0]); }, 0,
        "copies rows");
  }
  const auto tiles = TileTranspose::Of(context, merged, size, why);
  if (!tiles) return nullptr;
  return MakeKernel([tiles = *tiles](const KernelArgs& args) {
    return tiles.Run(args.inputs[0].as<void>(), args.outputs[0].as<void>());
  });
}

}  // namespace

std::optional<TileTranspose> TileTranspose::Of(const CudaContext& context, const Strided& view,
                                               int64_t element_bytes, std::string* why, bool rounds) {
  const Strided merged = Merged(view);
  const std::vector<int64_t> to_strides = RowMajorStrides(merged.dims);
  TransposeParameters p;
  if (merged.dims.empty() || merged.strides.back() == 1 || merged.dims.size() > kMaxAxes + 2) {
    *why = merged.dims.size() > kMaxAxes + 2 ? "more than 10 axes" : "the last axis stays the last";
    return std::nullopt;
  }
  int64_t outer = 1, a = 1;
  for (size_t d = 0; d + 1 < merged.dims.size(); ++d) {
    if (merged.strides[d] == 1) {
      a = merged.dims[d];
      p.to_stride_a = to_strides[d];
      continue;
    }
    const auto at = static_cast<size_t>(p.outer.count++);
    p.outer.dims[at] = DivisorOf(merged.dims[d]);
    p.outer.from[at] = merged.strides[d];
    p.outer.to[at] = to_strides[d];
    outer *= merged.dims[d];
  }
  const int64_t b = merged.dims.back();
  p.from_stride_b = merged.strides.back();
  if (std::max(a, b) >= kMaxCount) {
    *why = "an axis of 2^31 elements or more";
    return std::nullopt;
  }
  p.a = static_cast<int32_t>(a);
  p.b = static_cast<int32_t>(b);
  p.log_b = LogOf(b, kLogTile / 2);
  p.log_a = LogOf(a, kLogTile - p.log_b);
  p.log_b = LogOf(b, kLogTile - p.log_a);
  p.tiles_a = TilesOf(a, p.log_a);
  p.tiles_b = TilesOf(b, p.log_b);
  TileTranspose transpose(
      {context, "transpose", "TransposeParameters", "transpose",
       std::string("Transpose<") + (rounds ? "float, act::BFloat16" : UnitType(element_bytes)) + ">"});
  transpose.parameters_ = p;
  transpose.blocks_ = outer * p.tiles_a.by * p.tiles_b.by;
  if (transpose.blocks_ >= kMaxCount) {
    *why = "2^31 tiles or more";
    return std::nullopt;
  }
  return transpose;
}

Status TileTranspose::Run(const void* x, void* y) const {
  TransposeParameters p = parameters_;
  p.from = x;
  p.to = y;
  return kernel_.Launch(blocks_, p);
}

void RegisterCudaTranspose(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("Transpose", {"cuda.transpose", [&context](const KernelSite& site, std::string* why) {
                               return Create(context, site, why);
                             }});
}

}  // namespace act::cuda
