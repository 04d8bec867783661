#include "kernels/site/dereference.h"
#include "kernels/site/gather_shape.h"

#include <algorithm>
#include <cstring>

#include "kernels/reference/registry.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/element_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/position_shape.h"

namespace act {
namespace {

std::unique_ptr<Kernel> Gather(const KernelSite& site, std::string* why) {
  if (site.inputs.size() < 2 || site.outputs.empty()) return Refuse(why, "needs x, index and a result");
  const auto shape = LookupShapeOf(site.node->attrs, NumbersOf(site.inputs[0]), site.outputs[0],
                                   site.inputs[1], OptionalInput(site.inputs, 2), why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape, code = CodeOfOperand(site, 0)](const KernelArgs& args) -> std::string {
    const TensorView &x = args.inputs[0], &index = args.inputs[1], &y = args.outputs[0];
    const TensorView* live = OptionalInput(args.inputs, 2);
    if (y.elements == 0) return "";
    if (std::string wrong = s.CheckIndices(index); !wrong.empty()) return wrong;
    const int64_t size = ByteSize(y.dtype), bytes = s.length * size;
    for (int64_t r = 0; r < s.Rows(); ++r) {
      const int64_t from = s.whole.At(r) + s.step * IndexAt(index, s.index.At(r), s.extent);
      if (!code)
        std::memcpy(y.as<char>() + r * bytes, x.as<char>() + from * size, static_cast<size_t>(bytes));
      for (int64_t i = 0; code && i < s.length; ++i)
        y.as<float>()[r * s.length + i] = code->At(x.as<void>(), from + i);
      if (live && !IsLive(*live, r / s.live_rows % s.live_extent))
        std::memset(y.as<char>() + r * bytes, 0, static_cast<size_t>(bytes));
    }
    return "";
  });
}

std::unique_ptr<Kernel> Scatter(const KernelSite& site, std::string* why) {
  const auto shape = ScatterShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = shape->lookup, reduction = shape->reduction](const KernelArgs& args) -> std::string {
    const TensorView &update = args.inputs[0], &index = args.inputs[1], &y = args.outputs[0];
    const TensorView *into = OptionalInput(args.inputs, 2), *live = OptionalInput(args.inputs, 3);
    if (y.elements == 0 && update.elements == 0) return "";
    if (std::string wrong = s.CheckIndices(index); !wrong.empty()) return wrong;
    if (!into)
      std::memset(y.as<void>(), 0, static_cast<size_t>(y.bytes));
    else if (into->data != y.data)
      std::memcpy(y.as<void>(), into->as<void>(), static_cast<size_t>(y.bytes));
    const int64_t size = ByteSize(y.dtype), rows = update.elements > 0 ? s.Rows() : 0;
    for (int64_t r = 0; r < rows; ++r) {
      if (live && !IsLive(*live, r / s.live_rows % s.live_extent)) continue;
      const int64_t to = s.whole.At(r) + s.step * IndexAt(index, s.index.At(r), s.extent);
      if (reduction == Reduction::kNone) {
        std::memcpy(y.as<char>() + to * size, update.as<char>() + r * s.length * size,
                    static_cast<size_t>(s.length * size));
        continue;
      }
      WithNumberType(y.dtype, [&](auto type) {
        using T = decltype(type);
        for (int64_t i = 0; i < s.length; ++i) {
          T& place = y.as<T>()[to + i];
          place = Reduce(reduction, place, update.as<T>()[r * s.length + i]);
        }
      });
    }
    return "";
  });
}

std::unique_ptr<Kernel> FlatIndex(const KernelSite& site, std::string* why) {
  const auto extents_of = FlatIndexExtentsOf(site, why);
  if (!extents_of) return nullptr;
  return MakeKernel([extents = *extents_of](const KernelArgs& args) -> std::string {
    const auto count = static_cast<int64_t>(extents.size());
    for (int64_t i = 0; i < args.outputs[0].elements; ++i) {
      int64_t position = 0;
      for (int64_t k = 0; k < count; ++k) {
        const int64_t extent = extents[static_cast<size_t>(k)],
                      at = IndexAt(args.inputs[0], i * count + k, 0);
        if (at < -extent || at >= extent)
          return "index " + std::to_string(at) + " of tuple " + std::to_string(i) +
                 " is outside an axis of extent " + std::to_string(extent);
        position = position * extent + (at < 0 ? at + extent : at);
      }
      args.outputs[0].as<int64_t>()[i] = position;
    }
    return "";
  });
}

std::unique_ptr<Kernel> Range(const KernelSite& site, std::string* why) {
  const auto shape = RangeShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    for (int64_t i = 0; i < args.outputs[0].elements; ++i)
      args.outputs[0].as<int64_t>()[i] = SaturatingAdd(s.first, SaturatingMul(s.step, i));
    return "";
  });
}

// NaN counts as nonzero, -0 does not.
bool IsNonZero(const TensorView& x, int64_t i) {
  if (x.dtype == DType::kFloat32) return x.as<float>()[i] != 0;
  if (x.dtype == DType::kFloat64) return x.as<double>()[i] != 0;
  const int64_t size = ByteSize(x.dtype);
  return std::any_of(x.as<char>() + i * size, x.as<char>() + (i + 1) * size,
                     [](char byte) { return byte != 0; });
}

std::unique_ptr<Kernel> NonZero(const KernelSite& site, std::string* why) {
  if (!NonZeroFits(site, why)) return nullptr;
  return MakeKernel([](const KernelArgs& args) -> std::string {
    const TensorView& from = args.inputs[0];
    auto* to = args.outputs[0].as<int64_t>();
    int64_t found = 0;
    for (int64_t i = 0; i < from.elements; ++i) {
      if (!IsNonZero(from, i)) continue;
      int64_t rest = i;
      for (size_t d = from.dims.size(); d-- > 0; rest /= from.dims[d])
        to[static_cast<int64_t>(d) * from.elements + found] = rest % from.dims[d];
      ++found;
    }
    for (int64_t i = 0; i < from.elements; ++i) args.outputs[1].as<uint8_t>()[i] = i < found;
    for (size_t d = 0; d < from.dims.size(); ++d) {
      int64_t* axis = to + static_cast<int64_t>(d) * from.elements;
      std::fill(axis + found, axis + from.elements, found > 0 ? axis[0] : 0);
    }
    return "";
  });
}

}  // namespace

void RegisterReferenceGather(KernelRegistry& registry) {
  registry.Add("Gather", {"reference.gather", Gather});
  registry.Add("Scatter", {"reference.scatter", Scatter});
  registry.Add("NonZero", {"reference.nonzero", NonZero});
  registry.Add("FlatIndex", {"reference.flat_index", FlatIndex});
  registry.Add("Range", {"reference.range", Range});
}

}  // namespace act
