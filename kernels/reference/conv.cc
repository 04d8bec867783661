#include "kernels/math/convert.h"
#include "kernels/reference/registry.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/window.h"

namespace act {
namespace {

// Calls f(In(), Out()), where these are the element types of an operand and of the result.
template <class F>
std::string WithTypes(DType in, DType out, F&& f) {
  const auto with_in = [&](auto in_type) -> std::string {
    return out == DType::kBFloat16 ? f(in_type, BFloat16()) : f(in_type, float());
  };
  return in == DType::kBFloat16 ? with_in(BFloat16()) : with_in(float());
}

// A float32 factor beside a factor of type T, to which it is rounded.
template <class T>
double Factor(float w) {
  return ToFloat(FromFloat<T>(w));
}

// y[n,o,m] = bias[m] + sum over k, c of x[n,i(o,k),c] w[m,c,k]
std::unique_ptr<Kernel> Conv(const KernelSite& site, std::string* why) {
  const auto shape =
      MixedConvShapeOf(site.node->attrs, site.inputs[0], NumbersOf(site.inputs[1]), site.outputs[0], why);
  if (!shape) return nullptr;
  const auto run = [s = *shape, code = CodeOfOperand(site, 1)](const KernelArgs& args, auto in,
                                                               auto out) -> std::string {
    using In = decltype(in);
    using Out = decltype(out);
    const In* x = args.inputs[0].as<In>();
    const auto w = [&, from = args.inputs[1].as<float>()](int64_t i) {
      return code ? code->At(from, i) : from[i];
    };
    const float* bias = args.inputs.size() > 2 ? args.inputs[2].as<float>() : nullptr;
    Out* y = args.outputs[0].as<Out>();
    const int64_t taps = s.KernelPixels(), cin = s.GroupIn(), pixels = s.OutPixels();
#pragma omp parallel for collapse(2)
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t p = 0; p < pixels; ++p) {
        const int64_t o0 = p / s.out[2] / s.out[1], o1 = p / s.out[2] % s.out[1], o2 = p % s.out[2];
        for (int64_t m = 0; m < s.out_channels; ++m) {
          double sum = bias ? bias[m] : 0;
          for (int64_t k = 0; k < taps; ++k) {
            const int64_t i0 = s.Input(0, o0, k / s.kernel[2] / s.kernel[1]);
            const int64_t i1 = s.Input(1, o1, k / s.kernel[2] % s.kernel[1]);
            const int64_t i2 = s.Input(2, o2, k % s.kernel[2]);
            if (!s.Inside(0, i0) || !s.Inside(1, i1) || !s.Inside(2, i2)) continue;
            const int64_t pixel = ((n * s.in[0] + i0) * s.in[1] + i1) * s.in[2] + i2;
            const In* row = x + pixel * s.channels + m / s.GroupOut() * cin;
            for (int64_t c = 0; c < cin; ++c)
              sum += ToFloat(row[c]) * Factor<In>(w((m * cin + c) * taps + k));
          }
          y[(n * pixels + p) * s.out_channels + m] = FromFloat<Out>(static_cast<float>(sum));
        }
      }
    return "";
  };
  return MakeKernel([run, x = site.inputs[0].dtype, y = site.outputs[0].dtype](const KernelArgs& args) {
    return WithTypes(x, y, [&](auto in, auto out) { return run(args, in, out); });
  });
}

// dx[n,i,c] = sum over the (o, k) that read i, and m, of dy[n,o,m] w[m,c,k]
std::unique_ptr<Kernel> ConvGradInput(const KernelSite& site, std::string* why) {
  const auto shape =
      MixedConvShapeOf(site.node->attrs, site.outputs[0], NumbersOf(site.inputs[1]), site.inputs[0], why);
  if (!shape) return nullptr;
  const auto run = [s = *shape, code = CodeOfOperand(site, 1)](const KernelArgs& args, auto in,
                                                               auto out_type) -> std::string {
    using In = decltype(in);
    using Out = decltype(out_type);
    const In* dy = args.inputs[0].as<In>();
    const auto w = [&, from = args.inputs[1].as<float>()](int64_t i) {
      return code ? code->At(from, i) : from[i];
    };
    Out* dx = args.outputs[0].as<Out>();
    const int64_t taps = s.KernelPixels(), cin = s.GroupIn(), cout = s.GroupOut(), pixels = s.InPixels();
#pragma omp parallel for collapse(2)
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t p = 0; p < pixels; ++p) {
        const int64_t at[3] = {p / s.in[2] / s.in[1], p / s.in[2] % s.in[1], p % s.in[2]};
        for (int64_t c = 0; c < s.channels; ++c) {
          double sum = 0;
          for (int64_t k = 0; k < taps; ++k) {
            const int64_t tap[3] = {k / s.kernel[2] / s.kernel[1], k / s.kernel[2] % s.kernel[1],
                                    k % s.kernel[2]};
            int64_t out = 0;
            bool reads = true;
            for (size_t a = 0; a < 3; ++a) {
              // o * stride, for the output o that reads this at tap k
              const int64_t scaled = at[a] + s.pad[a] - tap[a] * s.dilation[a];
              const int64_t o = scaled / s.stride[a];
              reads = reads && scaled >= 0 && scaled % s.stride[a] == 0 && o < s.out[a];
              out = out * s.out[a] + o;
            }
            if (!reads) continue;
            const int64_t g = c / cin;
            const In* row = dy + (n * s.OutPixels() + out) * s.out_channels + g * cout;
            for (int64_t m = 0; m < cout; ++m)
              sum += ToFloat(row[m]) * Factor<In>(w(((g * cout + m) * cin + c % cin) * taps + k));
          }
          dx[(n * pixels + p) * s.channels + c] = FromFloat<Out>(static_cast<float>(sum));
        }
      }
    return "";
  };
  return MakeKernel([run, dy = site.inputs[0].dtype, dx = site.outputs[0].dtype](const KernelArgs& args) {
    return WithTypes(dy, dx, [&](auto in, auto out) { return run(args, in, out); });
  });
}

// dw[m,c,k] = sum over n, o of dy[n,o,m] x[n,i(o,k),c]
std::unique_ptr<Kernel> ConvGradWeight(const KernelSite& site, std::string* why) {
  const auto shape = MixedConvShapeOf(site.node->attrs, site.inputs[1], site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  const auto run = [s = *shape](const KernelArgs& args, auto dy_type, auto x_type) -> std::string {
    const auto* dy = args.inputs[0].as<decltype(dy_type)>();
    const auto* x = args.inputs[1].as<decltype(x_type)>();
    float* dw = args.outputs[0].as<float>();
    const int64_t taps = s.KernelPixels(), cin = s.GroupIn();
#pragma omp parallel for collapse(3)
    for (int64_t m = 0; m < s.out_channels; ++m)
      for (int64_t c = 0; c < cin; ++c)
        for (int64_t k = 0; k < taps; ++k) {
          const int64_t k0 = k / s.kernel[2] / s.kernel[1], k1 = k / s.kernel[2] % s.kernel[1],
                        k2 = k % s.kernel[2];
          double sum = 0;
          for (int64_t n = 0; n < s.batch; ++n)
            for (int64_t o0 = 0; o0 < s.out[0]; ++o0)
              for (int64_t o1 = 0; o1 < s.out[1]; ++o1)
                for (int64_t o2 = 0; o2 < s.out[2]; ++o2) {
                  const int64_t i0 = s.Input(0, o0, k0), i1 = s.Input(1, o1, k1), i2 = s.Input(2, o2, k2);
                  if (!s.Inside(0, i0) || !s.Inside(1, i1) || !s.Inside(2, i2)) continue;
                  const int64_t in = ((n * s.in[0] + i0) * s.in[1] + i1) * s.in[2] + i2;
                  const int64_t out = ((n * s.out[0] + o0) * s.out[1] + o1) * s.out[2] + o2;
                  sum += double{ToFloat(dy[out * s.out_channels + m])} *
                         ToFloat(x[in * s.channels + m / s.GroupOut() * cin + c]);
                }
          dw[(m * cin + c) * taps + k] = static_cast<float>(sum);
        }
    return "";
  };
  return MakeKernel([run, dy = site.inputs[0].dtype, x = site.inputs[1].dtype](const KernelArgs& args) {
    return WithTypes(dy, x, [&](auto dy_type, auto x_type) { return run(args, dy_type, x_type); });
  });
}

}  // namespace

void RegisterReferenceConv(KernelRegistry& registry) {
  registry.Add("Conv", {"reference.conv", Conv});
  registry.Add("ConvGradInput", {"reference.conv_grad_input", ConvGradInput});
  registry.Add("ConvGradWeight", {"reference.conv_grad_weight", ConvGradWeight});
}

}  // namespace act
