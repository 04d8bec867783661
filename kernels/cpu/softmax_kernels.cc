#include "kernels/cpu/softmax.h"
#include "kernels/cpu/special.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/softmax_shape.h"

namespace act {
namespace {

// f(first operand's row, last operand's row, columns, result's row)
template <class F>
KernelEntry RowKernel(const char* name, F f) {
  return {name, [f](const KernelSite& site, std::string* why) -> std::unique_ptr<Kernel> {
            const auto shape = SoftmaxShapeOf(site, why);
            if (!shape) return nullptr;
            return MakeKernel([f, s = *shape](const KernelArgs& args) -> std::string {
              const float *a = args.inputs.front().as<float>(), *b = args.inputs.back().as<float>();
              float* y = args.outputs[0].as<float>();
#pragma omp parallel for schedule(static) if (s.rows * s.columns > kParallelElements)
              for (int64_t r = 0; r < s.rows; ++r)
                f(a + r * s.columns, b + r * s.columns, s.columns, y + r * s.columns);
              return "";
            });
          }};
}

}  // namespace

void RegisterCpuSoftmax(KernelRegistry& registry) {
  registry.Add("Softmax", RowKernel("cpu.softmax", [](const float* x, const float*, int64_t columns,
                                                      float* y) { SoftmaxRow(x, columns, y); }));
  registry.Add("LogSoftmax",
               RowKernel("cpu.log_softmax", [](const float* x, const float*, int64_t columns, float* y) {
                 const auto log_sum = SoftmaxRow(x, columns, y);
                 for (int64_t c = 0; c < columns; ++c) y[c] = static_cast<float>(x[c] - log_sum);
               }));
  registry.Add("SoftmaxGrad",
               RowKernel("cpu.softmax_grad", [](const float* dy, const float* y, int64_t columns, float* dx) {
                 SoftmaxGradRow(dy, y, columns, dx);
               }));
}

}  // namespace act
