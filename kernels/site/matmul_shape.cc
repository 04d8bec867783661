#include "kernels/site/matmul_shape.h"

#include <algorithm>

#include "kernels/site/loss_shape.h"
#include "kernels/site/mixed_floats.h"

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

}  // namespace

std::optional<MatMulShape> MatMulShapeOf(const Attributes& attrs, const TensorView& a, const TensorView& b,
                                         const TensorView& y, std::string* why) {
  if (a.dtype != DType::kFloat32 || b.dtype != DType::kFloat32 || y.dtype != DType::kFloat32) {
    if (why) *why = "float32 only";
    return std::nullopt;
  }
  return MixedMatMulShapeOf(attrs, a, b, y, why);
}

std::optional<MatMulShape> MixedMatMulShapeOf(const Attributes& attrs, const TensorView& a,
                                              const TensorView& b, const TensorView& y, std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  if (!AreMixedFloats({a.dtype, b.dtype}, {y.dtype})) return no(kMixedFloats);
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

MatMulShape Folded(MatMulShape s) {
  const bool shared_b =
      std::all_of(s.b_batch.strides.begin(), s.b_batch.strides.end(), [](int64_t v) { return v == 0; });
  const std::vector<int64_t> dense = RowMajorStrides(s.a_batch.dims);
  bool dense_a = s.a_k == 1;
  for (size_t d = 0; d < dense.size(); ++d)
    dense_a = dense_a && (s.a_batch.dims[d] == 1 || s.a_batch.strides[d] == dense[d] * s.m * s.k);
  if (shared_b && dense_a) {
    s.a_m = s.k;  // one row of a transposed operand has the distance of its elements
    s.m *= s.Batches();
    s.a_batch = s.b_batch = {};
  }
  return s;
}

}  // namespace act
