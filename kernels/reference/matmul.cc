#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/matmul_shape.h"

namespace act {
namespace {

std::unique_ptr<Kernel> MatMul(const KernelSite& site, std::string* why) {
  const auto shape = MatMulShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], site.outputs[0], why);
  if (!shape || !BiasFits(*shape, site.inputs, why)) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const int64_t batches = s.Batches();
    const TensorView* bias = OptionalInput(args.inputs, 2);
#pragma omp parallel for collapse(2)
    for (int64_t i = 0; i < batches; ++i)
      for (int64_t row = 0; row < s.m; ++row) {
        const float* a = args.inputs[0].as<float>() + s.a_batch.At(i) + row * s.a_m;
        const float* b = args.inputs[1].as<float>() + s.b_batch.At(i);
        float* y = args.outputs[0].as<float>() + (i * s.m + row) * s.n;
        for (int64_t col = 0; col < s.n; ++col) {
          double sum = bias ? bias->as<float>()[col] : 0;
          for (int64_t p = 0; p < s.k; ++p) sum += double{a[p * s.a_k]} * b[p * s.b_k + col * s.b_n];
          y[col] = static_cast<float>(sum);
        }
      }
    return "";
  });
}

}  // namespace

void RegisterReferenceMatMul(KernelRegistry& registry) {
  registry.Add("MatMul", {"reference.matmul", MatMul});
}

}  // namespace act
