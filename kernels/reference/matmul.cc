#include "kernels/reference/registry.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/matmul_shape.h"
#include "kernels/site/mixed_floats.h"

namespace act {
namespace {

std::unique_ptr<Kernel> MatMul(const KernelSite& site, std::string* why) {
  const auto shape =
      MixedMatMulShapeOf(site.node->attrs, site.inputs[0], NumbersOf(site.inputs[1]), site.outputs[0], why);
  if (!shape || !BiasFits(*shape, site.inputs, why)) return nullptr;
  return MakeKernel([s = *shape, code = CodeOfOperand(site, 1)](const KernelArgs& args) -> std::string {
    const int64_t batches = s.Batches();
    const TensorView &left = args.inputs[0], &right = args.inputs[1], &y = args.outputs[0];
    const MixedFactor a(left.dtype, right.dtype, left.as<void>()),
        b(right.dtype, left.dtype, right.as<void>());
    const auto b_at = [&](int64_t i) {
      if (!code) return b[i];
      const float x = code->At(right.as<void>(), i);
      return left.dtype == DType::kBFloat16 ? Rounded(x) : x;
    };
    const TensorView* bias = OptionalInput(args.inputs, 2);
#pragma omp parallel for collapse(2)
    for (int64_t i = 0; i < batches; ++i)
      for (int64_t row = 0; row < s.m; ++row) {
        const int64_t at_a = s.a_batch.At(i) + row * s.a_m, at_b = s.b_batch.At(i);
        for (int64_t col = 0; col < s.n; ++col) {
          double sum = bias ? bias->as<float>()[col] : 0;
          for (int64_t p = 0; p < s.k; ++p)
            sum += double{a[at_a + p * s.a_k]} * b_at(at_b + p * s.b_k + col * s.b_n);
          const int64_t at = (i * s.m + row) * s.n + col;
          if (args.goes_on) sum += y.as<float>()[at];
          WriteMixed(y.dtype, y.as<void>(), at, static_cast<float>(sum));
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
