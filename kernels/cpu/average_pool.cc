#include <algorithm>

#include "kernels/cpu/float_block.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/cpu/window_taps.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

// y[c] += scale * x[c]
template <class T>
ACT_IN_CLONES void AddScaledOf(const T* x, float scale, int64_t count, float* y) {
  for (int64_t c = 0; c < count; ++c) y[c] += scale * ToFloat(x[c]);
}
ACT_VECTOR_CLONES void AddScaled(const float* x, float scale, int64_t count, float* y) {
  AddScaledOf(x, scale, count, y);
}
ACT_VECTOR_CLONES void AddScaled(const BFloat16* x, float scale, int64_t count, float* y) {
  AddScaledOf(x, scale, count, y);
}
ACT_VECTOR_CLONES void Scale(float scale, int64_t count, float* y) {
  for (int64_t c = 0; c < count; ++c) y[c] *= scale;
}

// For each output pixel, 1 / the number of elements that it averages: [o0][o1][o2].
std::vector<float> ScalesOf(const Window& w, bool include_pad) {
  std::vector<float> scales;
  if (w.batch == 0 || w.channels == 0) return scales;
  for (int64_t o0 = 0; o0 < w.out[0]; ++o0)
    for (int64_t o1 = 0; o1 < w.out[1]; ++o1)
      for (int64_t o2 = 0; o2 < w.out[2]; ++o2)
        scales.push_back(static_cast<float>(w.AverageScale(o0, o1, o2, include_pad)));
  return scales;
}

template <class T>
void Pool(const Window& w, const std::vector<float>& scales, const KernelArgs& args) {
  const T* x = args.inputs[0].as<T>();
  const int64_t pixels = w.OutPixels(), block = FloatBlock<T>::Length(w.channels);
#pragma omp parallel for schedule(static) if (args.inputs[0].elements > kParallelElements)
  for (int64_t p = 0; p < w.batch * pixels; ++p) {
    const int64_t n = p / pixels, o0 = p / w.out[2] / w.out[1] % w.out[0], o1 = p / w.out[2] % w.out[1],
                  o2 = p % w.out[2];
    for (int64_t first = 0; first < w.channels; first += block) {
      const int64_t count = std::min(block, w.channels - first);
      FloatBlock<T> y(args.outputs[0].as<T>() + p * w.channels + first);
      std::fill_n(y.data(), count, 0.0f);
      for (int64_t k0 = 0; k0 < w.kernel[0]; ++k0)
        for (int64_t k1 = 0; k1 < w.kernel[1]; ++k1)
          for (int64_t k2 = 0; k2 < w.kernel[2]; ++k2) {
            const int64_t i0 = w.Input(0, o0, k0), i1 = w.Input(1, o1, k1), i2 = w.Input(2, o2, k2);
            if (!w.Inside(0, i0) || !w.Inside(1, i1) || !w.Inside(2, i2)) continue;
            const int64_t pixel = ((n * w.in[0] + i0) * w.in[1] + i1) * w.in[2] + i2;
            AddScaled(x + pixel * w.channels + first, 1.0f, count, y.data());
          }
      Scale(scales[static_cast<size_t>(p % pixels)], count, y.data());
      y.Store(count);
    }
  }
}

std::unique_ptr<Kernel> AveragePool(const KernelSite& site, std::string* why) {
  const auto shape = PoolShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  std::vector<float> scales = ScalesOf(*shape, site.node->attrs.Int("count_include_pad") != 0);
  return MakeKernel([w = *shape, scales = std::move(scales)](const KernelArgs& args) -> std::string {
    WithFloatType(args.inputs[0].dtype, [&](auto type) { Pool<decltype(type)>(w, scales, args); });
    return "";
  });
}

template <class T>
void PoolGrad(const Window& w, const std::vector<float>& scales, const AllWindowTaps& taps,
              const KernelArgs& args) {
  const T* dy = args.inputs[0].as<T>();
  const int64_t pixels = w.InPixels(), block = FloatBlock<T>::Length(w.channels);
#pragma omp parallel for schedule(static) if (args.outputs[0].elements > kParallelElements)
  for (int64_t p = 0; p < w.batch * pixels; ++p)
    for (int64_t first = 0; first < w.channels; first += block) {
      const int64_t n = p / pixels, count = std::min(block, w.channels - first);
      FloatBlock<T> dx(args.outputs[0].as<T>() + p * w.channels + first);
      std::fill_n(dx.data(), count, 0.0f);
      for (const auto& a : taps.axis0.At(p / w.in[2] / w.in[1] % w.in[0]))
        for (const auto& b : taps.axis1.At(p / w.in[2] % w.in[1]))
          for (const auto& c : taps.axis2.At(p % w.in[2])) {
            const int64_t o = (a.output * w.out[1] + b.output) * w.out[2] + c.output;
            AddScaled(dy + (n * w.OutPixels() + o) * w.channels + first, scales[static_cast<size_t>(o)],
                      count, dx.data());
          }
      dx.Store(count);
    }
}

std::unique_ptr<Kernel> AveragePoolGrad(const KernelSite& site, std::string* why) {
  const auto shape = PoolShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  std::vector<float> scales = ScalesOf(*shape, site.node->attrs.Int("count_include_pad") != 0);
  return MakeKernel([w = *shape, scales = std::move(scales),
                     taps = AllWindowTaps(*shape)](const KernelArgs& args) -> std::string {
    WithFloatType(args.inputs[0].dtype, [&](auto type) { PoolGrad<decltype(type)>(w, scales, taps, args); });
    return "";
  });
}

}  // namespace

void RegisterCpuAveragePool(KernelRegistry& registry) {
  registry.Add("AveragePool", {"cpu.average_pool", AveragePool});
  registry.Add("AveragePoolGrad", {"cpu.average_pool_grad", AveragePoolGrad});
}

}  // namespace act
