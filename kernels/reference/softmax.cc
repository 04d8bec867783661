#include <cmath>
#include <limits>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/softmax_shape.h"

namespace act {
namespace {

std::unique_ptr<Kernel> Forward(const KernelSite& site, bool log, std::string* why) {
  const auto shape = SoftmaxShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape, log](const KernelArgs& args) -> std::string {
    for (int64_t r = 0; r < s.rows; ++r) {
      const float* x = args.inputs[0].as<float>() + r * s.columns;
      float* y = args.outputs[0].as<float>() + r * s.columns;
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t c = 0; c < s.columns; ++c) max = std::fmax(max, x[c]);
      for (int64_t c = 0; c < s.columns; ++c) sum += std::exp(x[c] - max);
      for (int64_t c = 0; c < s.columns; ++c)
        y[c] = static_cast<float>(log ? x[c] - max - std::log(sum) : std::exp(x[c] - max) / sum);
    }
    return "";
  });
}

// dx = y (dy - sum(dy y))
std::unique_ptr<Kernel> SoftmaxGrad(const KernelSite& site, std::string* why) {
  const auto shape = SoftmaxShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    for (int64_t r = 0; r < s.rows; ++r) {
      const float* dy = args.inputs[0].as<float>() + r * s.columns;
      const float* y = args.inputs[1].as<float>() + r * s.columns;
      float* dx = args.outputs[0].as<float>() + r * s.columns;
      double sum = 0;
      for (int64_t c = 0; c < s.columns; ++c) sum += double{dy[c]} * y[c];
      for (int64_t c = 0; c < s.columns; ++c) dx[c] = static_cast<float>(y[c] * (dy[c] - sum));
    }
    return "";
  });
}

}  // namespace

std::optional<SoftmaxShape> SoftmaxShapeOf(const KernelSite& site, std::string* why) {
  const TensorView& x = site.inputs[0];
  for (const auto* tensors : {&site.inputs, &site.outputs})
    for (const TensorView& t : *tensors)
      if (t.dtype != DType::kFloat32 || t.dims != x.dims || t.dims.empty()) {
        if (why) *why = "operands and result must be f32 tensors of the same dims";
        return std::nullopt;
      }
  SoftmaxShape s;
  s.columns = x.dims.back();
  s.rows = s.columns > 0 ? x.elements / s.columns : 0;
  return s;
}

void RegisterReferenceSoftmax(KernelRegistry& registry) {
  registry.Add("Softmax", {"reference.softmax", [](const KernelSite& site, std::string* why) {
                             return Forward(site, false, why);
                           }});
  registry.Add("LogSoftmax", {"reference.log_softmax", [](const KernelSite& site, std::string* why) {
                                return Forward(site, true, why);
                              }});
  registry.Add("SoftmaxGrad", {"reference.softmax_grad", SoftmaxGrad});
}

}  // namespace act
