// Operators that move elements, other than transposes.
#include <cstring>
#include <numeric>

#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/pad_parameters.h"
#include "kernels/cuda/strided_copy.h"
#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/movement_shape.h"

namespace act::cuda {
namespace {

Strided Dense(const std::vector<int64_t>& dims) { return {dims, RowMajorStrides(dims)}; }

std::unique_ptr<Kernel> Concat(const CudaContext& context, const KernelSite& site, std::string* why) {
  const TensorView& y = site.outputs[0];
  const auto views = ConcatViews(site.node->attrs, site.inputs, y, why);
  if (!views) return nullptr;
  std::vector<StridedCopy> copies;
  for (size_t j = 0; j < views->size(); ++j) {
    const auto copy = StridedCopy::Of(context, Dense(site.inputs[j].dims), (*views)[j], ByteSize(y.dtype),
                                      CommonAlignment(site.inputs[j], y), why);
    if (!copy) return nullptr;
    copies.push_back(*copy);
  }
  return MakeKernel([copies = std::move(copies)](const KernelArgs& args) -> std::string {
    for (size_t j = 0; j < copies.size(); ++j)
      if (Status status = copies[j].Run(args.inputs[j], args.outputs[0]); !status.empty()) return status;
    return "";
  });
}

std::unique_ptr<Kernel> Slice(const CudaContext& context, const KernelSite& site, std::string* why) {
  const TensorView &x = site.inputs[0], &y = site.outputs[0];
  const auto view = SliceView(site.node->attrs, x, y, why);
  if (!view) return nullptr;
  const auto copy =
      StridedCopy::Of(context, *view, Dense(y.dims), ByteSize(y.dtype), CommonAlignment(x, y), why);
  if (!copy) return nullptr;
  return MakeKernel(
      [copy = *copy](const KernelArgs& args) { return copy.Run(args.inputs[0], args.outputs[0]); });
}

std::unique_ptr<Kernel> SliceGrad(const CudaContext& context, const KernelSite& site, std::string* why) {
  const TensorView &dy = site.inputs[0], &dx = site.outputs[0];
  const auto view = SliceView(site.node->attrs, dx, dy, why);
  if (!view) return nullptr;
  const auto copy =
      StridedCopy::Of(context, Dense(dy.dims), *view, ByteSize(dx.dtype), CommonAlignment(dx, dy), why);
  if (!copy) return nullptr;
  return MakeKernel([copy = *copy, &context](const KernelArgs& args) -> std::string {
    const TensorView& to = args.outputs[0];
    if (to.bytes == 0) return "";
    if (Status s = context.driver().Fill8(context.stream, to.as<std::byte>(), 0, to.bytes); !s.empty())
      return s;
    return copy.Run(args.inputs[0], to);
  });
}

// Axes that are not padded become one with such neighbours; at the end, they are rows.
std::unique_ptr<Kernel> Pad(const CudaContext& context, const KernelSite& site, std::string* why) {
  const TensorView &x = site.inputs[0], &y = site.outputs[0];
  if (y.dtype == DType::kFloat16) return Refuse(why, "the value cannot be written as f16");
  const auto shape = PadShapeOf(site.node->attrs, x, y, why);
  if (!shape) return nullptr;
  const std::vector<int64_t> pads = site.node->attrs.Ints("pads");
  const auto padded = [&](size_t d) { return pads[d] != 0 || x.dims[d] != y.dims[d]; };
  const int64_t size = ByteSize(y.dtype);
  size_t axes = y.dims.size();
  int64_t row = 1;
  while (axes > 0 && !padded(axes - 1)) row *= y.dims[--axes];
  const int64_t unit = UnitBytes(row * size, CommonAlignment(x, y)), units = row * size / unit;

  PadParameters p;
  const auto add = [&](int64_t extent, int64_t of_x, int64_t begin, int64_t x_stride) {
    if (p.count < kMaxAxes)
      p.axes[p.count] = {DivisorOf(extent), static_cast<int32_t>(of_x), static_cast<int32_t>(begin),
                         x_stride};
    ++p.count;
  };
  for (size_t d = 0; d < axes; ++d) {
    int64_t extent = y.dims[d], of_x = x.dims[d];
    const int64_t begin = pads[d];
    if (!padded(d))
      for (; d + 1 < axes && !padded(d + 1); ++d) extent = of_x = extent * y.dims[d + 1];
    add(extent, of_x, begin, shape->x_strides[d] * size / unit);
  }
  if (units != 1) add(units, units, 0, 1);
  const int64_t items = y.elements * size / unit;
  if (p.count > kMaxAxes) return Refuse(why, "more than 8 axes");
  if (items >= kMaxCount || x.elements >= kMaxCount) return Refuse(why, "2^31 elements or more");
  p.items = static_cast<int32_t>(items);
  p.mode = shape->mode;
  for (int64_t at = 0; at < unit; at += size) WriteFromFloat(y.dtype, &shape->value, 1, p.value + at);
  const OwnKernel<PadParameters> kernel(context, "pad", "PadParameters", "pad",
                                        std::string("Pad<") + UnitType(unit) + ">");
  return MakeKernel([p, kernel](const KernelArgs& args) mutable -> std::string {
    p.from = args.inputs[0].as<void>();
    p.to = args.outputs[0].as<void>();
    return kernel.LaunchItems(p.items, p);
  });
}

}  // namespace

void RegisterCudaMovement(KernelRegistry& registry, const CudaContext& context) {
  const auto add = [&](const std::string& op, const std::string& name, auto create) {
    registry.Add(op, {name, [&context, create](const KernelSite& site, std::string* why) {
                        return create(context, site, why);
                      }});
  };
  add("Concat", "cuda.concat", Concat);
  add("Slice", "cuda.slice", Slice);
  add("SliceGrad", "cuda.slice_grad", SliceGrad);
  add("Pad", "cuda.pad", Pad);
}

}  // namespace act::cuda
