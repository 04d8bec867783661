#include <algorithm>

#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/cpu/window_taps.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

// y[c] += scale * x[c]
ACT_VECTOR_CLONES void AddScaled(const float* x, float scale, int64_t count, float* y) {
  for (int64_t c = 0; c < count; ++c) y[c] += scale * x[c];
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

std::unique_ptr<Kernel> AveragePool(const KernelSite& site, std::string* why) {
  const auto shape = PoolShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  std::vector<float> scales = ScalesOf(*shape, site.node->attrs.Int("count_include_pad") != 0);
  return MakeKernel([w = *shape, scales = std::move(scales)](const KernelArgs& args) -> std::string {
    const int64_t pixels = w.OutPixels();
#pragma omp parallel for schedule(static) if (args.inputs[0].elements > kParallelElements)
    for (int64_t p = 0; p < w.batch * pixels; ++p) {
      const int64_t n = p / pixels, o0 = p / w.out[2] / w.out[1] % w.out[0], o1 = p / w.out[2] % w.out[1],
                    o2 = p % w.out[2];
      float* y = args.outputs[0].as<float>() + p * w.channels;
      std::fill_n(y, w.channels, 0.0f);
      for (int64_t k0 = 0; k0 < w.kernel[0]; ++k0)
        for (int64_t k1 = 0; k1 < w.kernel[1]; ++k1)
          for (int64_t k2 = 0; k2 < w.kernel[2]; ++k2) {
            const int64_t i0 = w.Input(0, o0, k0), i1 = w.Input(1, o1, k1), i2 = w.Input(2, o2, k2);
            if (!w.Inside(0, i0) || !w.Inside(1, i1) || !w.Inside(2, i2)) continue;
            const int64_t pixel = ((n * w.in[0] + i0) * w.in[1] + i1) * w.in[2] + i2;
            AddScaled(args.inputs[0].as<float>() + pixel * w.channels, 1.0f, w.channels, y);
          }
      Scale(scales[static_cast<size_t>(p % pixels)], w.channels, y);
    }
    return "";
  });
}

std::unique_ptr<Kernel> AveragePoolGrad(const KernelSite& site, std::string* why) {
  const auto shape = PoolShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  std::vector<float> scales = ScalesOf(*shape, site.node->attrs.Int("count_include_pad") != 0);
  const WindowTaps taps[3] = {{*shape, 0}, {*shape, 1}, {*shape, 2}};
  return MakeKernel([w = *shape, scales = std::move(scales), t0 = taps[0], t1 = taps[1],
                     t2 = taps[2]](const KernelArgs& args) -> std::string {
    const int64_t pixels = w.InPixels();
#pragma omp parallel for schedule(static) if (args.outputs[0].elements > kParallelElements)
    for (int64_t p = 0; p < w.batch * pixels; ++p) {
      const int64_t n = p / pixels;
      float* dx = args.outputs[0].as<float>() + p * w.channels;
      std::fill_n(dx, w.channels, 0.0f);
      for (const auto& a : t0.At(p / w.in[2] / w.in[1] % w.in[0]))
        for (const auto& b : t1.At(p / w.in[2] % w.in[1]))
          for (const auto& c : t2.At(p % w.in[2])) {
            const int64_t o = (a.output * w.out[1] + b.output) * w.out[2] + c.output;
            AddScaled(args.inputs[0].as<float>() + (n * w.OutPixels() + o) * w.channels,
                      scales[static_cast<size_t>(o)], w.channels, dx);
          }
    }
    return "";
  });
}

}  // namespace

void RegisterCpuAveragePool(KernelRegistry& registry) {
  registry.Add("AveragePool", {"cpu.average_pool", AveragePool});
  registry.Add("AveragePoolGrad", {"cpu.average_pool_grad", AveragePoolGrad});
}

}  // namespace act
