#include <cstring>

#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/movement_shape.h"
#include "kernels/site/rows.h"

namespace act {
namespace {

constexpr int64_t kTile = 32;  // elements; a tile of x and one of y fit into the first-level cache

// Two axes of y that change places when x is read: axis a is contiguous in x, axis b is contiguous
// in y. All other axes are outer axes.
struct Swap {
  Strided x_outer, y_outer;
  int64_t a = 1, b = 1;  // extents
  int64_t y_stride_a = 1, x_stride_b = 1;
};

template <class T>
void Tile(const T* x, T* y, const Swap& s, int64_t a_begin, int64_t a_end) {
  for (int64_t b0 = 0; b0 < s.b; b0 += kTile) {
    const int64_t b1 = std::min(b0 + kTile, s.b);
    for (int64_t a = a_begin; a < a_end; ++a)
      for (int64_t b = b0; b < b1; ++b) y[a * s.y_stride_a + b] = x[a + b * s.x_stride_b];
  }
}

template <class T>
void Run(const Swap& s, const void* x, void* y) {
  const int64_t tiles = (s.a + kTile - 1) / kTile, work = s.x_outer.Elements() * tiles;
#pragma omp parallel for schedule(static) if (work * kTile * kTile > kParallelElements)
  for (int64_t i = 0; i < work; ++i) {
    const int64_t outer = i / tiles, a = i % tiles * kTile;
    Tile(static_cast<const T*>(x) + s.x_outer.At(outer), static_cast<T*>(y) + s.y_outer.At(outer), s, a,
         std::min(a + kTile, s.a));
  }
}

// view: y[i] = x[view.At(i)], merged. Nullopt if the last axis stays last: then whole rows
// are copied.
std::optional<Swap> SwapOf(const Strided& view) {
  if (view.dims.empty() || view.strides.back() == 1) return std::nullopt;
  const std::vector<int64_t> y_strides = RowMajorStrides(view.dims);
  Swap s;
  for (size_t d = 0; d < view.dims.size(); ++d) {
    if (d + 1 == view.dims.size()) {
      s.b = view.dims[d];
      s.x_stride_b = view.strides[d];
    } else if (view.strides[d] == 1) {
      s.a = view.dims[d];
      s.y_stride_a = y_strides[d];
    } else {
      s.x_outer.dims.push_back(view.dims[d]);
      s.x_outer.strides.push_back(view.strides[d]);
      s.y_outer.dims.push_back(view.dims[d]);
      s.y_outer.strides.push_back(y_strides[d]);
    }
  }
  return s;
}

std::unique_ptr<Kernel> Transpose(const KernelSite& site, std::string* why) {
  const auto view = TransposeView(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!view) return nullptr;
  const int64_t size = ByteSize(site.outputs[0].dtype);
  if (site.outputs[0].elements == 0) return MakeKernel([](const KernelArgs&) -> std::string { return ""; });
  if (const auto swap = SwapOf(Merged(*view)))
    return MakeKernel([s = *swap, size](const KernelArgs& args) -> std::string {
      const void* x = args.inputs[0].as<void>();
      void* y = args.outputs[0].as<void>();
      if (size == 1) Run<uint8_t>(s, x, y);
      if (size == 2) Run<uint16_t>(s, x, y);
      if (size == 4) Run<uint32_t>(s, x, y);
      if (size == 8) Run<uint64_t>(s, x, y);
      return "";
    });
  return MakeKernel([rows = RowsOf(Merged(*view)), size](const KernelArgs& args) -> std::string {
    const int64_t count = rows.outer.Elements(), bytes = rows.length * size;
#pragma omp parallel for schedule(static) if (count * rows.length > kParallelElements)
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(args.outputs[0].as<char>() + r * bytes, args.inputs[0].as<char>() + rows.outer.At(r) * size,
                  static_cast<size_t>(bytes));
    return "";
  });
}

}  // namespace

void RegisterCpuTranspose(KernelRegistry& registry) {
  registry.Add("Transpose", {"cpu.transpose", Transpose});
}

}  // namespace act
