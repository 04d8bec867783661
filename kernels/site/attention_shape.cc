#include "kernels/site/attention_shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/site/loss_shape.h"
#include "kernels/site/mixed_floats.h"

namespace act {
namespace {

// A tensor: the whole of it, or one of three slices along an axis.
struct Slice {
  Strided view;
  int64_t offset = 0;
};

Slice SliceOf(const Attributes& attrs, const TensorView& tensor, int64_t index) {
  Slice s{{tensor.dims, RowMajorStrides(tensor.dims)}, 0};
  if (!attrs.Has("packed")) return s;
  const int64_t axis = attrs.Int("packed");
  s.offset = index * s.view.strides[static_cast<size_t>(axis)];
  s.view.dims.erase(s.view.dims.begin() + axis);
  s.view.strides.erase(s.view.strides.begin() + axis);
  return s;
}

// The tensor with its axes in the logical order. Nullopt if `perm` is not a permutation.
std::optional<Strided> InLogicalOrder(const Attributes& attrs, const char* name, const Strided& tensor) {
  const size_t rank = tensor.dims.size();
  std::vector<int64_t> identity(rank);
  std::iota(identity.begin(), identity.end(), 0);
  const std::vector<int64_t> perm = attrs.Ints(name, identity);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != identity) return std::nullopt;
  Strided logical;
  for (int64_t axis : perm) {
    logical.dims.push_back(tensor.dims[static_cast<size_t>(axis)]);
    logical.strides.push_back(tensor.strides[static_cast<size_t>(axis)]);
  }
  return logical;
}

MatrixSlices Slices(Strided logical, int64_t offset = 0) {
  MatrixSlices m;
  m.offset = offset;
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

std::optional<AttentionShape> AttentionShapeOf(const KernelSite& site, size_t first, const TensorView& o,
                                               std::string* why) {
  const Attributes& attrs = site.node->attrs;
  const std::span<const TensorView> operands = std::span(site.inputs).subspan(first);
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  AttentionShape s;
  s.packed = attrs.Has("packed");
  if (s.packed) {
    const int64_t axis = attrs.Int("packed");
    for (const TensorView& t : operands.first(3))
      if (axis < 0 || axis >= static_cast<int64_t>(t.dims.size()) || t.dims[static_cast<size_t>(axis)] != 3 ||
          t.dims != operands[0].dims)
        return no("packed q, k and v must be one tensor with an axis of extent 3");
  }
  const Slice q = SliceOf(attrs, operands[0], 0), k = SliceOf(attrs, operands[1], 1),
              v = SliceOf(attrs, operands[2], 2);
  const size_t rank = o.dims.size();
  bool fits = rank >= 3 && AreMixedFloats({operands[0].dtype}, {o.dtype});
  for (const TensorView& t : operands.first(3)) fits = fits && t.dtype == operands[0].dtype;
  for (const Slice* t : {&q, &k, &v}) fits = fits && t->view.dims.size() == rank;
  if (!fits) return no("q, k, v and the result must be f32 or bf16 of one rank, 3 at least");
  const auto lq = InLogicalOrder(attrs, "perm_q", q.view), lk = InLogicalOrder(attrs, "perm_k", k.view),
             lv = InLogicalOrder(attrs, "perm_v", v.view),
             lo = InLogicalOrder(attrs, "perm_o", {o.dims, RowMajorStrides(o.dims)});
  if (!lq || !lk || !lv || !lo) return no("an attribute perm is not a permutation of the axes");
  const size_t head = rank - 3;
  s.heads = lq->dims[head];
  s.kv_heads = lk->dims[head];
  s.queries = lq->dims[rank - 2];
  s.keys = lk->dims[rank - 2];
  s.depth = lq->dims[rank - 1];
  s.value_depth = lv->dims[rank - 1];
  std::vector<int64_t> batch(lq->dims.begin(), lq->dims.begin() + static_cast<std::ptrdiff_t>(head));
  s.batches = ElementCount(batch);
  s.batches_each = site.batch > 0 ? s.batches / site.batch : 1;
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
  s.q = Slices(*lq, q.offset);
  s.k = Slices(*lk, k.offset);
  s.v = Slices(*lv, v.offset);
  s.o = Slices(*lo);
  s.scale = static_cast<float>(attrs.Float("scale", 1));
  s.softcap = static_cast<float>(attrs.Float("softcap", 0));
  s.causal = attrs.Int("causal") != 0;
  s.causal_offset = attrs.Int("causal_offset");
  s.window = attrs.Int("window") != 0;
  s.window_offset = attrs.Int("window_offset");
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

bool GradientsFit(const AttentionShape& shape, std::span<const TensorView> operands,
                  std::span<const TensorView> results, std::string* why) {
  const size_t of_bias = shape.GradientOf(3);
  bool fit = results.size() <= of_bias + 1 && results.size() >= of_bias;
  for (size_t i = 0; fit && i < results.size(); ++i) {
    const size_t operand = i == of_bias ? 3 : i;
    fit = operand < operands.size() && results[i].dims == operands[operand].dims &&
          AreMixedFloats({operands[0].dtype}, {results[i].dtype});
  }
  if (!fit && why) *why = "a gradient does not have the dims of its operand, or is neither f32 nor bf16";
  return fit;
}

}  // namespace act
