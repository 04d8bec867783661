#include <cstring>

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/movement_shape.h"
#include "kernels/site/rows.h"

namespace act {
namespace {

// Copies between a dense tensor and rows spread over another tensor. Elements have `size` bytes.
void Gather(const Rows& rows, const TensorView& spread, const TensorView& dense, bool to_spread) {
  const int64_t size = ByteSize(dense.dtype), count = rows.outer.Elements(), bytes = rows.length * size;
#pragma omp parallel for schedule(static) if (count * rows.length > kParallelElements)
  for (int64_t r = 0; r < count; ++r) {
    char* there = spread.as<char>() + rows.outer.At(r) * size;
    char* here = dense.as<char>() + r * bytes;
    std::memcpy(to_spread ? there : here, to_spread ? here : there, static_cast<size_t>(bytes));
  }
}

std::unique_ptr<Kernel> Concat(const KernelSite& site, std::string* why) {
  const auto views = ConcatViews(site.node->attrs, site.inputs, site.outputs[0], why);
  if (!views) return nullptr;
  std::vector<Rows> parts;
  for (const Strided& view : *views) parts.push_back(RowsOf(view));
  return MakeKernel([parts = std::move(parts)](const KernelArgs& args) -> std::string {
    for (size_t j = 0; j < parts.size(); ++j)
      if (args.inputs[j].elements > 0) Gather(parts[j], args.outputs[0], args.inputs[j], true);
    return "";
  });
}

std::unique_ptr<Kernel> Slice(const KernelSite& site, std::string* why) {
  const auto view = SliceView(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!view) return nullptr;
  return MakeKernel([rows = RowsOf(*view)](const KernelArgs& args) -> std::string {
    if (args.outputs[0].elements > 0) Gather(rows, args.inputs[0], args.outputs[0], false);
    return "";
  });
}

std::unique_ptr<Kernel> SliceGrad(const KernelSite& site, std::string* why) {
  const auto view = SliceView(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (!view) return nullptr;
  return MakeKernel([rows = RowsOf(*view)](const KernelArgs& args) -> std::string {
    Clear(args.outputs[0]);
    if (args.inputs[0].elements > 0) Gather(rows, args.outputs[0], args.inputs[0], true);
    return "";
  });
}

// y as [outer][axis][inner]. `axis` is the last one that is padded; everything after it is
// contiguous in x and y.
struct PaddedRows {
  PadShape shape;
  std::vector<int64_t> dims;  // of y
  size_t axes = 0;            // up to the last that is padded
  int64_t inner = 1, count = 0;
};

template <class T>
void PadRows(const PaddedRows& rows, const T* x, T* y) {
  const T value = FromFloat<T>(rows.shape.value);
#pragma omp parallel for schedule(static) if (rows.count * rows.inner > kParallelElements)
  for (int64_t r = 0; r < rows.count; ++r) {
    int64_t rest = r, at = 0;
    bool inside = true;
    for (size_t d = rows.axes; d-- > 0; rest /= rows.dims[d]) {
      const int64_t i = rows.shape.source[d][static_cast<size_t>(rest % rows.dims[d])];
      inside = inside && i >= 0;
      at += i * rows.shape.x_strides[d];
    }
    if (inside)
      std::copy_n(x + at, rows.inner, y + r * rows.inner);
    else
      std::fill_n(y + r * rows.inner, rows.inner, value);
  }
}

std::unique_ptr<Kernel> Pad(const KernelSite& site, std::string* why) {
  const DType dtype = site.outputs[0].dtype;
  if (!IsFloat32OrBFloat16(dtype)) return Refuse(why, "float32 or bfloat16 only");
  const auto shape = PadShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  const std::vector<int64_t>&x = site.inputs[0].dims, &y = site.outputs[0].dims;
  const std::vector<int64_t> pads = site.node->attrs.Ints("pads");
  PaddedRows rows{*shape, y, y.size()};
  for (size_t& d = rows.axes; d > 0 && pads[d - 1] == 0 && x[d - 1] == y[d - 1]; --d) rows.inner *= y[d - 1];
  rows.count = rows.inner > 0 ? site.outputs[0].elements / rows.inner : 0;
  return MakeKernel([rows = std::move(rows), dtype](const KernelArgs& args) -> std::string {
    WithFloatType(dtype, [&](auto type) {
      using T = decltype(type);
      PadRows(rows, args.inputs[0].as<const T>(), args.outputs[0].as<T>());
    });
    return "";
  });
}

std::unique_ptr<Kernel> Swap(const KernelSite& site, std::string* why) {
  if (site.inputs[0].bytes != site.outputs[0].bytes) return Refuse(why, "not as many bytes on both sides");
  return MakeKernel([](const KernelArgs& args) -> std::string {
    Copy(args.outputs[0], args.inputs[0]);
    return "";
  });
}

}  // namespace

void RegisterCpuMovement(KernelRegistry& registry) {
  registry.Add("SwapOut", {"cpu.swap_out", Swap});
  registry.Add("SwapIn", {"cpu.swap_in", Swap});
  registry.Add("Concat", {"cpu.concat", Concat});
  registry.Add("Slice", {"cpu.slice", Slice});
  registry.Add("SliceGrad", {"cpu.slice_grad", SliceGrad});
  registry.Add("Pad", {"cpu.pad", Pad});
}

}  // namespace act
