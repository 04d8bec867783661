#include "kernels/reference/attention_shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/reference/loss_shape.h"

namespace act {
namespace {

// The tensor with its axes in the logical order; nullopt where perm is none.
std::optional<Strided> InLogicalOrder(const Attributes& attrs, const char* name, const TensorView& tensor) {
  const size_t rank = tensor.dims.size();
  std::vector<int64_t> identity(rank);
  std::iota(identity.begin(), identity.end(), 0);
  const std::vector<int64_t> perm = attrs.Ints(name, identity);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != identity) return std::nullopt;
  const std::vector<int64_t> strides = RowMajorStrides(tensor.dims);
  Strided logical;
  for (int64_t axis : perm) {
    logical.dims.push_back(tensor.dims[static_cast<size_t>(axis)]);
    logical.strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  return logical;
}

MatrixSlices Slices(Strided logical) {
  MatrixSlices m;
  m.column = logical.strides.back();
  m.row = logical.strides[logical.strides.size() - 2];
  logical.dims.resize(logical.dims.size() - 2);
  logical.strides.resize(logical.strides.size() - 2);
  m.slices = std::move(logical);
  return m;
}

// `tensor` seen as a tensor of `dims`.
std::optional<MatrixSlices> BroadcastTo(const std::vector<int64_t>& dims, const TensorView& tensor) {
  if (tensor.dims.size() > dims.size()) return std::nullopt;
  const size_t missing = dims.size() - tensor.dims.size();
  const std::vector<int64_t> strides = RowMajorStrides(tensor.dims);
  Strided view;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t extent = d < missing ? 1 : tensor.dims[d - missing];
    if (extent != dims[d] && extent != 1) return std::nullopt;
    view.dims.push_back(dims[d]);
    view.strides.push_back(extent == 1 ? 0 : strides[d - missing]);
  }
  return Slices(std::move(view));
}

}  // namespace

std::optional<AttentionShape> AttentionShapeOf(const Attributes& attrs, std::span<const TensorView> operands,
                                               const TensorView& o, std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  const TensorView &q = operands[0], &k = operands[1], &v = operands[2];
  const size_t rank = q.dims.size();
  for (const TensorView* t : {&q, &k, &v, &o})
    if (t->dtype != DType::kFloat32 || t->dims.size() != rank || rank < 3)
      return no("q, k, v and the result must be f32 of one rank, 3 at least");
  const auto lq = InLogicalOrder(attrs, "perm_q", q), lk = InLogicalOrder(attrs, "perm_k", k),
             lv = InLogicalOrder(attrs, "perm_v", v), lo = InLogicalOrder(attrs, "perm_o", o);
  if (!lq || !lk || !lv || !lo) return no("an attribute perm is not a permutation of the axes");
  const size_t head = rank - 3;
  AttentionShape s;
  s.heads = lq->dims[head];
  s.kv_heads = lk->dims[head];
  s.queries = lq->dims[rank - 2];
  s.keys = lk->dims[rank - 2];
  s.depth = lq->dims[rank - 1];
  s.value_depth = lv->dims[rank - 1];
  std::vector<int64_t> batch(lq->dims.begin(), lq->dims.begin() + static_cast<std::ptrdiff_t>(head));
  s.batches = ElementCount(batch);
  const auto is = [&](const Strided& t, int64_t heads, int64_t rows, int64_t columns) {
    std::vector<int64_t> want = batch;
    want.insert(want.end(), {heads, rows, columns});
    return t.dims == want;
  };
  const bool grouped = s.heads == s.kv_heads || (s.kv_heads > 0 && s.heads % s.kv_heads == 0);
  if (!grouped || !is(*lk, s.kv_heads, s.keys, s.depth) || !is(*lv, s.kv_heads, s.keys, s.value_depth) ||
      !is(*lo, s.heads, s.queries, s.value_depth))
    return no("q " + DimsText(lq->dims) + ", k " + DimsText(lk->dims) + ", v " + DimsText(lv->dims) +
              " and the result " + DimsText(lo->dims) + " do not fit");
  std::vector<int64_t> scores = lq->dims;
  scores.back() = s.keys;
  if (const TensorView* bias = OptionalInput(operands, 3)) {
    s.bias = BroadcastTo(scores, *bias);
    if (!s.bias || bias->dtype != DType::kFloat32) return no("the bias does not broadcast to the scores");
  }
  if (const TensorView* mask = OptionalInput(operands, 4)) {
    s.mask = BroadcastTo(scores, *mask);
    if (!s.mask || mask->dtype != DType::kBool) return no("the mask does not broadcast to the scores");
  }
  s.q = Slices(*lq);
  s.k = Slices(*lk);
  s.v = Slices(*lv);
  s.o = Slices(*lo);
  s.scale = static_cast<float>(attrs.Float("scale", 1));
  s.softcap = static_cast<float>(attrs.Float("softcap", 0));
  s.causal = attrs.Int("causal") != 0;
  s.causal_offset = attrs.Int("causal_offset");
  s.hidden_gradient = attrs.Int("hidden_gradient") != 0;
  s.dropout = static_cast<float>(attrs.Float("probability"));
  s.stream = static_cast<int32_t>(attrs.Int("stream"));
  if (!(s.dropout >= 0 && s.dropout < 1)) return no("the dropout probability must be in [0, 1)");
  if (!(s.softcap >= 0)) return no("softcap must not be negative");
  const std::string empty = attrs.String("empty_row", "nan");
  if (empty != "nan" && empty != "mean" && empty != "zero") return no("no empty_row '" + empty + "'");
  s.empty_row = empty == "nan" ? EmptyRow::kNaN : empty == "mean" ? EmptyRow::kMean : EmptyRow::kZero;
  return s;
}

}  // namespace act
