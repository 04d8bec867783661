#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
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

// Calls f(output element, window position) for each element of a window that reads this input element,
// outputs in ascending order. After each input element, calls done(input element).
template <class F, class G>
void ForEachReader(const Window& w, F f, G done) {
  const int64_t pixels = w.InPixels(), taps = w.KernelPixels();
  for (int64_t p = 0; p < w.batch * pixels; ++p) {
    const int64_t n = p / pixels;
    const int64_t i[3] = {p / w.in[2] / w.in[1] % w.in[0], p / w.in[2] % w.in[1], p % w.in[2]};
    for (int64_t c = 0; c < w.channels; ++c) {
      for (int64_t k = taps; k-- > 0;) {  // descending positions give ascending outputs
        const int64_t at[3] = {k / w.kernel[2] / w.kernel[1], k / w.kernel[2] % w.kernel[1], k % w.kernel[2]};
        int64_t out = n;
        bool reads = true;
        for (size_t a = 0; a < 3; ++a) {
          const int64_t scaled = i[a] + w.pad[a] - at[a] * w.dilation[a];
          reads = reads && scaled >= 0 && scaled % w.stride[a] == 0 && scaled / w.stride[a] < w.out[a];
          out = out * w.out[a] + (reads ? scaled / w.stride[a] : 0);
        }
        if (reads) f(out * w.channels + c, k);
      }
      done(p * w.channels + c);
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
    const TensorView index = args.outputs.size() > 1 ? args.outputs[1] : TensorView();
    WithFloatType(args.inputs[0].dtype, [&](auto type) {
      using T = decltype(type);
      const T* x = args.inputs[0].as<T>();
      T* y = args.outputs[0].as<T>();
      float best = 0;
      int64_t best_k = -1;
      ForEachWindow(
          w,
          [&](int64_t, int64_t in, int64_t k) {
            const float v = ToFloat(x[in]);
            if (best_k >= 0 && !(v > best) && !(std::isnan(v) && !std::isnan(best))) return;
            best = v;
            best_k = k;
          },
          [&](int64_t out, const int64_t*) {
            y[out] = FromFloat<T>(best_k < 0 ? -std::numeric_limits<float>::infinity() : best);
            StoreIndex(index, out, best_k < 0 ? 0 : best_k);
            best_k = -1;
          });
    });
    return "";
  });
}

std::unique_ptr<Kernel> MaxPoolGrad(const KernelSite& site, std::string* why) {
  const auto shape = MaxPoolGradShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([w = *shape](const KernelArgs& args) -> std::string {
    const TensorView& index = args.inputs[1];
    WithFloatType(args.inputs[0].dtype, [&](auto type) {
      using T = decltype(type);
      const T* dy = args.inputs[0].as<T>();
      T* dx = args.outputs[0].as<T>();
      float sum = 0;
      ForEachReader(
          w,
          [&](int64_t out, int64_t k) {
            const int64_t won =
                index.dtype == DType::kUint8 ? index.as<uint8_t>()[out] : index.as<int32_t>()[out];
            if (won == k) sum += ToFloat(dy[out]);
          },
          [&](int64_t in) {
            dx[in] = FromFloat<T>(sum);
            sum = 0;
          });
    });
    return "";
  });
}

std::unique_ptr<Kernel> AveragePool(const KernelSite& site, std::string* why) {
  const auto shape = PoolShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  const bool include_pad = site.node->attrs.Int("count_include_pad") != 0;
  return MakeKernel([w = *shape, include_pad](const KernelArgs& args) -> std::string {
    WithFloatType(args.inputs[0].dtype, [&](auto type) {
      using T = decltype(type);
      const T* x = args.inputs[0].as<T>();
      T* y = args.outputs[0].as<T>();
      double sum = 0;
      ForEachWindow(
          w, [&](int64_t, int64_t in, int64_t) { sum += ToFloat(x[in]); },
          [&](int64_t out, const int64_t* o) {
            y[out] = FromFloat<T>(static_cast<float>(sum * w.AverageScale(o[0], o[1], o[2], include_pad)));
            sum = 0;
          });
    });
    return "";
  });
}

std::unique_ptr<Kernel> AveragePoolGrad(const KernelSite& site, std::string* why) {
  const auto shape = PoolShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  const bool include_pad = site.node->attrs.Int("count_include_pad") != 0;
  return MakeKernel([w = *shape, include_pad](const KernelArgs& args) -> std::string {
    WithFloatType(args.inputs[0].dtype, [&](auto type) {
      using T = decltype(type);
      const T* dy = args.inputs[0].as<T>();
      T* dx = args.outputs[0].as<T>();
      double sum = 0;
      ForEachReader(
          w,
          [&](int64_t out, int64_t) {
            const int64_t p = out / w.channels;
            sum += ToFloat(dy[out]) * w.AverageScale(p / w.out[2] / w.out[1] % w.out[0],
                                                     p / w.out[2] % w.out[1], p % w.out[2], include_pad);
          },
          [&](int64_t in) {
            dx[in] = FromFloat<T>(static_cast<float>(sum));
            sum = 0;
          });
    });
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
