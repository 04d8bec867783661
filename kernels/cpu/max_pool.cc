#include <algorithm>
#include <limits>

#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/cpu/window_taps.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

constexpr int64_t kBlock = 128;  // channels at a time: running maxima stay in registers and L1

// best[c] = max(best[c], x[c]), and at[c] is its position. A NaN replaces any number and
// then stays.
ACT_VECTOR_CLONES void TakeMax(const float* x, int64_t count, int32_t position, float* best, int32_t* at) {
  for (int64_t c = 0; c < count; ++c) {
    const bool wins = (x[c] > best[c] || x[c] != x[c]) && best[c] == best[c];
    best[c] = wins ? x[c] : best[c];
    at[c] = wins ? position : at[c];
  }
}

// dx[c] += dy[c] where the window's maximum was at `position`.
template <class Index>
inline void AddWhere(const Index* index, const float* dy, int64_t count, int32_t position, float* dx) {
  for (int64_t c = 0; c < count; ++c) dx[c] += index[c] == static_cast<Index>(position) ? dy[c] : 0.0f;
}
ACT_VECTOR_CLONES void AddWhere8(const uint8_t* index, const float* dy, int64_t count, int32_t position,
                                 float* dx) {
  AddWhere(index, dy, count, position, dx);
}
ACT_VECTOR_CLONES void AddWhere32(const int32_t* index, const float* dy, int64_t count, int32_t position,
                                  float* dx) {
  AddWhere(index, dy, count, position, dx);
}

// One block of channels of one output pixel; x points at the sample's first pixel.
void PoolBlock(const Window& w, const float* x, int64_t o0, int64_t o1, int64_t o2, int64_t count,
               float* best, int32_t* at) {
  bool first = true;
  int32_t position = 0;
  for (int64_t k0 = 0; k0 < w.kernel[0]; ++k0)
    for (int64_t k1 = 0; k1 < w.kernel[1]; ++k1)
      for (int64_t k2 = 0; k2 < w.kernel[2]; ++k2, ++position) {
        const int64_t i0 = w.Input(0, o0, k0), i1 = w.Input(1, o1, k1), i2 = w.Input(2, o2, k2);
        if (!w.Inside(0, i0) || !w.Inside(1, i1) || !w.Inside(2, i2)) continue;
        const float* row = x + ((i0 * w.in[1] + i1) * w.in[2] + i2) * w.channels;
        if (first) {
          std::copy_n(row, count, best);
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

std::unique_ptr<Kernel> MaxPool(const KernelSite& site, std::string* why) {
  const auto shape = MaxPoolShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([w = *shape](const KernelArgs& args) -> std::string {
    const TensorView index = args.outputs.size() > 1 ? args.outputs[1] : TensorView();
    const int64_t rows = w.batch * w.out[0] * w.out[1];
#pragma omp parallel for schedule(static) if (args.inputs[0].elements > kParallelElements)
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t n = row / (w.out[0] * w.out[1]), o0 = row / w.out[1] % w.out[0], o1 = row % w.out[1];
      for (int64_t o2 = 0; o2 < w.out[2]; ++o2)
        for (int64_t c = 0; c < w.channels; c += kBlock) {
          const int64_t count = std::min(kBlock, w.channels - c), to = (row * w.out[2] + o2) * w.channels + c;
          int32_t at[kBlock];
          PoolBlock(w, args.inputs[0].as<float>() + n * w.InPixels() * w.channels + c, o0, o1, o2, count,
                    args.outputs[0].as<float>() + to, at);
          if (!index.data) continue;
          if (index.dtype == DType::kUint8)
            for (int64_t j = 0; j < count; ++j) index.as<uint8_t>()[to + j] = static_cast<uint8_t>(at[j]);
          else
            std::copy_n(at, count, index.as<int32_t>() + to);
        }
    }
    return "";
  });
}

std::unique_ptr<Kernel> MaxPoolGrad(const KernelSite& site, std::string* why) {
  const auto shape = MaxPoolGradShapeOf(site, why);
  if (!shape) return nullptr;
  const WindowTaps taps[3] = {{*shape, 0}, {*shape, 1}, {*shape, 2}};
  return MakeKernel([w = *shape, t0 = taps[0], t1 = taps[1],
                     t2 = taps[2]](const KernelArgs& args) -> std::string {
    const float* dy = args.inputs[0].as<float>();
    const TensorView& index = args.inputs[1];
    const int64_t rows = w.batch * w.in[0] * w.in[1];
#pragma omp parallel for schedule(static) if (args.outputs[0].elements > kParallelElements)
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t n = row / (w.in[0] * w.in[1]), i0 = row / w.in[1] % w.in[0], i1 = row % w.in[1];
      for (int64_t i2 = 0; i2 < w.in[2]; ++i2) {
        float* dx = args.outputs[0].as<float>() + (row * w.in[2] + i2) * w.channels;
        std::fill_n(dx, w.channels, 0.0f);
        for (const auto& a : t0.At(i0))
          for (const auto& b : t1.At(i1))
            for (const auto& c : t2.At(i2)) {
              const int64_t from =
                  (((n * w.out[0] + a.output) * w.out[1] + b.output) * w.out[2] + c.output) * w.channels;
              const auto position =
                  static_cast<int32_t>((a.position * w.kernel[1] + b.position) * w.kernel[2] + c.position);
              if (index.dtype == DType::kUint8)
                AddWhere8(index.as<uint8_t>() + from, dy + from, w.channels, position, dx);
              else
                AddWhere32(index.as<int32_t>() + from, dy + from, w.channels, position, dx);
            }
      }
    }
    return "";
  });
}

}  // namespace

void RegisterCpuMaxPool(KernelRegistry& registry) {
  registry.Add("MaxPool", {"cpu.max_pool", MaxPool});
  registry.Add("MaxPoolGrad", {"cpu.max_pool_grad", MaxPoolGrad});
}

}  // namespace act
