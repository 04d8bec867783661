#include <cstring>

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
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
std::unique_ptr<Kernel> Pad(const KernelSite& site, std::string* why) {
  if (site.outputs[0].dtype != DType::kFloat32) return Refuse(why, "float32 only");
  const auto shape = PadShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  const std::vector<int64_t>&x = site.inputs[0].dims, &y = site.outputs[0].dims;
  const std::vector<int64_t> pads = site.node->attrs.Ints("pads");
  size_t axes = y.size();
  int64_t inner = 1;
  for (; axes > 0 && pads[axes - 1] == 0 && x[axes - 1] == y[axes - 1]; --axes) inner *= y[axes - 1];
  const int64_t rows = inner > 0 ? site.outputs[0].elements / inner : 0;
  return MakeKernel([s = *shape, y, axes, inner, rows](const KernelArgs& args) -> std::string {
    const float* from = args.inputs[0].as<float>();
#pragma omp parallel for schedule(static) if (rows * inner > kParallelElements)
    for (int64_t r = 0; r < rows; ++r) {
      int64_t rest = r, at = 0;
      bool inside = true;
      for (size_t d = axes; d-- > 0; rest /= y[d]) {
        const int64_t i = s.source[d][static_cast<size_t>(rest % y[d])];
        inside = inside && i >= 0;
        at += i * s.x_strides[d];
      }
      float* to = args.outputs[0].as<float>() + r * inner;
      if (inside)
        std::copy_n(from + at, inner, to);
      else
        std::fill_n(to, inner, s.value);
    }
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
