#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/matmul_shape.h"

namespace act {
namespace {

// y's batch axes seen from an operand. Nullopt if they do not broadcast.
std::optional<Strided> BatchOf(const TensorView& operand, const TensorView& y) {
  const std::vector<int64_t> strides = RowMajorStrides(operand.dims);
  const size_t axes = y.dims.size() - 2;
  if (operand.dims.size() - 2 > axes) return std::nullopt;
  const size_t missing = y.dims.size() - operand.dims.size();
  Strided r;
  for (size_t d = 0; d < axes; ++d) {
    const int64_t extent = d < missing ? 1 : operand.dims[d - missing];
    if (extent != y.dims[d] && extent != 1) return std::nullopt;
    r.dims.push_back(y.dims[d]);
    r.strides.push_back(extent == 1 ? 0 : strides[d - missing]);
  }
  return r;
}

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

std::optional<MatMulShape> MatMulShapeOf(const Attributes& attrs, const TensorView& a, const TensorView& b,
                                         const TensorView& y, std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  if (a.dtype != DType::kFloat32 || b.dtype != DType::kFloat32 || y.dtype != DType::kFloat32)
    return no("float32 only");
  if (a.dims.size() < 2 || b.dims.size() < 2 || y.dims.size() < 2) return no("ranks are at least 2");
  const size_t ra = a.dims.size(), rb = b.dims.size(), ry = y.dims.size();
  const bool ta = attrs.Int("trans_a") != 0, tb = attrs.Int("trans_b") != 0;
  MatMulShape s;
  s.m = a.dims[ra - (ta ? 1 : 2)];
  s.k = a.dims[ra - (ta ? 2 : 1)];
  s.n = b.dims[rb - (tb ? 2 : 1)];
  s.a_m = ta ? 1 : a.dims[ra - 1];
  s.a_k = ta ? a.dims[ra - 1] : 1;
  s.b_k = tb ? 1 : b.dims[rb - 1];
  s.b_n = tb ? b.dims[rb - 1] : 1;
  const auto a_batch = BatchOf(a, y), b_batch = BatchOf(b, y);
  if (b.dims[rb - (tb ? 1 : 2)] != s.k || y.dims[ry - 2] != s.m || y.dims[ry - 1] != s.n || !a_batch ||
      !b_batch)
    return no(DimsText(a.dims) + (ta ? "^T" : "") + " times " + DimsText(b.dims) + (tb ? "^T" : "") +
              " is not " + DimsText(y.dims));
  s.a_batch = *a_batch;
  s.b_batch = *b_batch;
  return s;
}

bool BiasFits(const MatMulShape& shape, std::span<const TensorView> operands, std::string* why) {
  const TensorView* bias = OptionalInput(operands, 2);
  const bool fits = !bias || (bias->dtype == DType::kFloat32 && bias->dims == std::vector<int64_t>{shape.n});
  if (!fits && why) *why = "bias " + DimsText(bias->dims) + " is not f32[" + std::to_string(shape.n) + "]";
  return fits;
}

void RegisterReferenceMatMul(KernelRegistry& registry) {
  registry.Add("MatMul", {"reference.matmul", MatMul});
}

}  // namespace act
