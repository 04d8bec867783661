#include <algorithm>
#include <limits>

#include "kernels/cpu/float_block.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/cpu/window_taps.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

constexpr int64_t kBlock = 128;  // channels at a time: running maxima stay in registers and L1

// best[c] = max(best[c], x[c]), and at[c] is its position. A NaN replaces any number and
// then stays.
template <class T>
ACT_IN_CLONES void TakeMaxOf(const T* x, int64_t count, int32_t position, float* best, int32_t* at) {
  for (int64_t c = 0; c < count; ++c) {
    const float v = ToFloat(x[c]);
    const bool wins = (v > best[c] || v != v) && best[c] == best[c];
    best[c] = wins ? v : best[c];
    at[c] = wins ? position : at[c];
  }
}
ACT_VECTOR_CLONES void TakeMax(const float* x, int64_t count, int32_t position, float* best, int32_t* at) {
  TakeMaxOf(x, count, position, best, at);
}
ACT_VECTOR_CLONES void TakeMax(const BFloat16* x, int64_t count, int32_t position, float* best, int32_t* at) {
  TakeMaxOf(x, count, position, best, at);
}

// dx[c] += dy[c] where the window's maximum was at `position`.
template <class Index, class T>
ACT_IN_CLONES void AddWhereOf(const Index* index, const T* dy, int64_t count, int32_t position, float* dx) {
  for (int64_t c = 0; c < count; ++c)
    dx[c] += index[c] == static_cast<Index>(position) ? ToFloat(dy[c]) : 0.0f;
}
#define ACT_ADD_WHERE(Index, T)                                                                     \
  ACT_VECTOR_CLONES void AddWhere(const Index* index, const T* dy, int64_t count, int32_t position, \
                                  float* dx) {                                                      \
    AddWhereOf(index, dy, count, position, dx);                                                     \
  }
ACT_ADD_WHERE(uint8_t, float)
ACT_ADD_WHERE(int32_t, float)
ACT_ADD_WHERE(uint8_t, BFloat16)
ACT_ADD_WHERE(int32_t, BFloat16)
#undef ACT_ADD_WHERE

// One block of channels of one output pixel; x points at the sample's first pixel.
template <class T>
void PoolBlock(const Window& w, const T* x, int64_t o0, int64_t o1, int64_t o2, int64_t count, float* best,
               int32_t* at) {
  bool first = true;
  int32_t position = 0;
  for (int64_t k0 = 0; k0 < w.kernel[0]; ++k0)
    for (int64_t k1 = 0; k1 < w.kernel[1]; ++k1)
      for (int64_t k2 = 0; k2 < w.kernel[2]; ++k2, ++position) {
        const int64_t i0 = w.Input(0, o0, k0), i1 = w.Input(1, o1, k1), i2 = w.Input(2, o2, k2);
        if (!w.Inside(0, i0) || !w.Inside(1, i1) || !w.Inside(2, i2)) continue;
        const T* row = x + ((i0 * w.in[1] + i1) * w.in[2] + i2) * w.channels;
        if (first) {
          CopyFloats(row, count, best);
          std::fill_n(at, count, position);
        } else {
          TakeMax(row, count, position, best, at);
        }
        first = false;
      }
  if (!first) return;
  std::fill_n(best, count, -std::numeric_limits<float>::infinity());
  std::fill_n(at, count, 0);
}

template <class T>
void Pool(const Window& w, const KernelArgs& args) {
  const T* x = args.inputs[0].as<T>();
  T* y = args.outputs[0].as<T>();
  const TensorView index = args.outputs.size() > 1 ? args.outputs[1] : TensorView();
  const int64_t rows = w.batch * w.out[0] * w.out[1];
#pragma omp parallel for schedule(static) if (args.inputs[0].elements > kParallelElements)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t n = row / (w.out[0] * w.out[1]), o0 = row / w.out[1] % w.out[0], o1 = row % w.out[1];
    for (int64_t o2 = 0; o2 < w.out[2]; ++o2)
      for (int64_t c = 0; c < w.channels; c += kBlock) {
        const int64_t count = std::min(kBlock, w.channels - c), to = (row * w.out[2] + o2) * w.channels + c;
        FloatBlock<T> best(y + to);
        int32_t at[kBlock];
        PoolBlock(w, x + n * w.InPixels() * w.channels + c, o0, o1, o2, count, best.data(), at);
        best.Store(count);
        if (!index.data) continue;
        if (index.dtype == DType::kUint8)
          for (int64_t j = 0; j < count; ++j) index.as<uint8_t>()[to + j] = static_cast<uint8_t>(at[j]);
        else
          std::copy_n(at, count, index.as<int32_t>() + to);
      }
  }
}

std::unique_ptr<Kernel> MaxPool(const KernelSite& site, std::string* why) {
  const auto shape = MaxPoolShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([w = *shape](const KernelArgs& args) -> std::string {
    WithFloatType(args.inputs[0].dtype, [&](auto type) { Pool<decltype(type)>(w, args); });
    return "";
  });
}

template <class T>
void PoolGrad(const Window& w, const AllWindowTaps& taps, const KernelArgs& args) {
  const T* dy = args.inputs[0].as<T>();
  const TensorView& index = args.inputs[1];
  const int64_t rows = w.batch * w.in[0] * w.in[1], block = FloatBlock<T>::Length(w.channels);
#pragma omp parallel for schedule(static) if (args.outputs[0].elements > kParallelElements)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t n = row / (w.in[0] * w.in[1]), i0 = row / w.in[1] % w.in[0], i1 = row % w.in[1];
    for (int64_t i2 = 0; i2 < w.in[2]; ++i2)
      for (int64_t first = 0; first < w.channels; first += block) {
        const int64_t count = std::min(block, w.channels - first);
        FloatBlock<T> dx(args.outputs[0].as<T>() + (row * w.in[2] + i2) * w.channels + first);
        std::fill_n(dx.data(), count, 0.0f);
        for (const auto& a : taps.axis0.At(i0))
          for (const auto& b : taps.axis1.At(i1))
            for (const auto& c : taps.axis2.At(i2)) {
              const int64_t from =
                  (((n * w.out[0] + a.output) * w.out[1] + b.output) * w.out[2] + c.output) * w.channels +
                  first;
              const auto position =
                  static_cast<int32_t>((a.position * w.kernel[1] + b.position) * w.kernel[2] + c.position);
              if (index.dtype == DType::kUint8)
                AddWhere(index.as<uint8_t>() + from, dy + from, count, position, dx.data());
              else
                AddWhere(index.as<int32_t>() + from, dy + from, count, position, dx.data());
            }
        dx.Store(count);
      }
  }
}

std::unique_ptr<Kernel> MaxPoolGrad(const KernelSite& site, std::string* why) {
  const auto shape = MaxPoolGradShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([w = *shape, taps = AllWindowTaps(*shape)](const KernelArgs& args) -> std::string {
    WithFloatType(args.inputs[0].dtype, [&](auto type) { PoolGrad<decltype(type)>(w, taps, args); });
    return "";
  });
}

}  // namespace

void RegisterCpuMaxPool(KernelRegistry& registry) {
  registry.Add("MaxPool", {"cpu.max_pool", MaxPool});
  registry.Add("MaxPoolGrad", {"cpu.max_pool_grad", MaxPoolGrad});
}

}  // namespace act
