#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/window.h"

namespace act {
namespace {

// Calls f(output element, input element, window position) for each element of each window, window
// by window. After each window, calls done(output element, its coordinates).
template <class F, class G>
void ForEachWindow(const Window& w, F f, G done) {
  const int64_t pixels = w.OutPixels(), taps = w.KernelPixels();
  for (int64_t p = 0; p < w.batch * pixels; ++p) {
    const int64_t n = p / pixels;
    const int64_t o[3] = {p / w.out[2] / w.out[1] % w.out[0], p / w.out[2] % w.out[1], p % w.out[2]};
    for (int64_t c = 0; c < w.channels; ++c) {
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t i0 = w.Input(0, o[0], k / w.kernel[2] / w.kernel[1]);
        const int64_t i1 = w.Input(1, o[1], k / w.kernel[2] % w.kernel[1]);
        const int64_t i2 = w.Input(2, o[2], k % w.kernel[2]);
        if (!w.Inside(0, i0) || !w.Inside(1, i1) || !w.Inside(2, i2)) continue;
        const int64_t in = ((n * w.in[0] + i0) * w.in[1] + i1) * w.in[2] + i2;
        f(p * w.channels + c, in * w.channels + c, k);
      }
      done(p * w.channels + c, o);
    }
  }
}

void StoreIndex(const TensorView& index, int64_t at, int64_t position) {
  if (!index.data) return;
  if (index.dtype == DType::kUint8)
    index.as<uint8_t>()[at] = static_cast<uint8_t>(position);
  else
    index.as<int32_t>()[at] = static_cast<int32_t>(position);
}

std::unique_ptr<Kernel> MaxPool(const KernelSite& site, std::string* why) {
  const auto shape = MaxPoolShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([w = *shape](const KernelArgs& args) -> std::string {
    const float* x = args.inputs[0].as<float>();
    float* y = args.outputs[0].as<float>();
    const TensorView index = args.outputs.size() > 1 ? args.outputs[1] : TensorView();
    float best = 0;
    int64_t best_k = -1;
    ForEachWindow(
        w,
        [&](int64_t, int64_t in, int64_t k) {
          if (best_k >= 0 && !(x[in] > best) && !(std::isnan(x[in]) && !std::isnan(best))) return;
          best = x[in];
          best_k = k;
        },
        [&](int64_t out, const int64_t*) {
          y[out] = best_k < 0 ? -std::numeric_limits<float>::infinity() : best;
          StoreIndex(index, out, best_k < 0 ? 0 : best_k);
          best_k = -1;
        });
    return "";
  });
}

std::unique_ptr<Kernel> MaxPoolGrad(const KernelSite& site, std::string* why) {
  const auto shape = MaxPoolGradShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([w = *shape](const KernelArgs& args) -> std::string {
    const float* dy = args.inputs[0].as<float>();
    const TensorView& index = args.inputs[1];
    float* dx = args.outputs[0].as<float>();
    std::fill_n(dx, args.outputs[0].elements, 0.0f);
    ForEachWindow(
        w,
        [&](int64_t out, int64_t in, int64_t k) {
          const int64_t won =
              index.dtype == DType::kUint8 ? index.as<uint8_t>()[out] : index.as<int32_t>()[out];
          if (won == k) dx[in] += dy[out];
        },
        [](int64_t, const int64_t*) {});
    return "";
  });
}

std::unique_ptr<Kernel> AveragePool(const KernelSite& site, std::string* why) {
  const auto shape = PoolShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  const bool include_pad = site.node->attrs.Int("count_include_pad") != 0;
  return MakeKernel([w = *shape, include_pad](const KernelArgs& args) -> std::string {
    const float* x = args.inputs[0].as<float>();
    float* y = args.outputs[0].as<float>();
    double sum = 0;
    ForEachWindow(
        w, [&](int64_t, int64_t in, int64_t) { sum += x[in]; },
        [&](int64_t out, const int64_t* o) {
          y[out] = static_cast<float>(sum * w.AverageScale(o[0], o[1], o[2], include_pad));
          sum = 0;
        });
    return "";
  });
}

std::unique_ptr<Kernel> AveragePoolGrad(const KernelSite& site, std::string* why) {
  const auto shape = PoolShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  const bool include_pad = site.node->attrs.Int("count_include_pad") != 0;
  return MakeKernel([w = *shape, include_pad](const KernelArgs& args) -> std::string {
    const float* dy = args.inputs[0].as<float>();
    float* dx = args.outputs[0].as<float>();
    std::fill_n(dx, args.outputs[0].elements, 0.0f);
    ForEachWindow(
        w,
        [&](int64_t out, int64_t in, int64_t) {
          const int64_t p = out / w.channels;
          const double scale = w.AverageScale(p / w.out[2] / w.out[1] % w.out[0], p / w.out[2] % w.out[1],
                                              p % w.out[2], include_pad);
          dx[in] += static_cast<float>(dy[out] * scale);
        },
        [](int64_t, const int64_t*) {});
    return "";
  });
}

}  // namespace

void RegisterReferencePool(KernelRegistry& registry) {
  registry.Add("MaxPool", {"reference.max_pool", MaxPool});
  registry.Add("MaxPoolGrad", {"reference.max_pool_grad", MaxPoolGrad});
  registry.Add("AveragePool", {"reference.average_pool", AveragePool});
  registry.Add("AveragePoolGrad", {"reference.average_pool_grad", AveragePoolGrad});
}

}  // namespace act
