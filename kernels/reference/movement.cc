#include <cstring>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/movement_shape.h"

namespace act {
namespace {

// to[to_at(i)] = from[from_at(i)] for i in 0..count-1. Elements have `size` bytes.
template <class To, class From>
void Move(const TensorView& to, const TensorView& from, int64_t count, To to_at, From from_at) {
  const int64_t size = ByteSize(to.dtype);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to.as<char>() + to_at(i) * size, from.as<char>() + from_at(i) * size,
                static_cast<size_t>(size));
}

int64_t Same(int64_t i) { return i; }

std::unique_ptr<Kernel> Transpose(const KernelSite& site, std::string* why) {
  const auto view = TransposeView(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!view) return nullptr;
  return MakeKernel([v = *view](const KernelArgs& args) -> std::string {
    Move(args.outputs[0], args.inputs[0], v.Elements(), Same, [&v](int64_t i) { return v.At(i); });
    return "";
  });
}

std::unique_ptr<Kernel> Concat(const KernelSite& site, std::string* why) {
  const auto views = ConcatViews(site.node->attrs, site.inputs, site.outputs[0], why);
  if (!views) return nullptr;
  return MakeKernel([views = *views](const KernelArgs& args) -> std::string {
    for (size_t j = 0; j < views.size(); ++j)
      Move(
          args.outputs[0], args.inputs[j], views[j].Elements(), [&](int64_t i) { return views[j].At(i); },
          Same);
    return "";
  });
}

std::unique_ptr<Kernel> Slice(const KernelSite& site, std::string* why) {
  const auto view = SliceView(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!view) return nullptr;
  return MakeKernel([v = *view](const KernelArgs& args) -> std::string {
    Move(args.outputs[0], args.inputs[0], v.Elements(), Same, [&v](int64_t i) { return v.At(i); });
    return "";
  });
}

std::unique_ptr<Kernel> SliceGrad(const KernelSite& site, std::string* why) {
  const auto view = SliceView(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (!view) return nullptr;
  return MakeKernel([v = *view](const KernelArgs& args) -> std::string {
    std::memset(args.outputs[0].as<void>(), 0, static_cast<size_t>(args.outputs[0].bytes));
    Move(
        args.outputs[0], args.inputs[0], v.Elements(), [&v](int64_t i) { return v.At(i); }, Same);
    return "";
  });
}

std::unique_ptr<Kernel> Pad(const KernelSite& site, std::string* why) {
  if (site.outputs[0].dtype == DType::kFloat16) return Refuse(why, "the value cannot be written as f16");
  const auto shape = PadShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const TensorView &x = args.inputs[0], &y = args.outputs[0];
    const int64_t size = ByteSize(y.dtype);
    for (int64_t i = 0; i < y.elements; ++i) {
      int64_t rest = i, at = 0;
      bool inside = true;
      for (size_t d = y.dims.size(); d-- > 0; rest /= y.dims[d]) {
        const int64_t from = s.source[d][static_cast<size_t>(rest % y.dims[d])];
        inside = inside && from >= 0;
        at += from * s.x_strides[d];
      }
      char* to = y.as<char>() + i * size;
      if (inside)
        std::memcpy(to, x.as<char>() + at * size, static_cast<size_t>(size));
      else
        WriteFromFloat(y.dtype, &s.value, 1, to);
    }
    return "";
  });
}

// Copies between the two memories of a plan. On a CPU, both are RAM.
std::unique_ptr<Kernel> Swap(const KernelSite& site, std::string* why) {
  if (site.inputs[0].bytes != site.outputs[0].bytes) return Refuse(why, "not as many bytes on both sides");
  return MakeKernel([](const KernelArgs& args) -> std::string {
    if (args.outputs[0].bytes > 0)
      std::memcpy(args.outputs[0].as<void>(), args.inputs[0].as<void>(),
                  static_cast<size_t>(args.outputs[0].bytes));
    return "";
  });
}

}  // namespace

void RegisterReferenceMovement(KernelRegistry& registry) {
  registry.Add("SwapOut", {"reference.swap_out", Swap});
  registry.Add("SwapIn", {"reference.swap_in", Swap});
  registry.Add("Transpose", {"reference.transpose", Transpose});
  registry.Add("Concat", {"reference.concat", Concat});
  registry.Add("Slice", {"reference.slice", Slice});
  registry.Add("SliceGrad", {"reference.slice_grad", SliceGrad});
  registry.Add("Pad", {"reference.pad", Pad});
}

}  // namespace act
