#include "kernels/site/movement_shape.h"

namespace act {
namespace {

std::nullopt_t No(std::string* why, std::string reason) {
  if (why) *why = std::move(reason);
  return std::nullopt;
}

// Larger positions cannot come from tensors that exist. The limit keeps start + (extent - 1) * step
// from overflowing.
constexpr int64_t kMaxStep = int64_t{1} << 31;

}  // namespace

std::optional<Strided> TransposeView(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                     std::string* why) {
  const std::vector<int64_t> perm = attrs.Ints("perm");
  const std::vector<int64_t> strides = RowMajorStrides(x.dims);
  std::vector<bool> seen(x.dims.size(), false);
  if (x.dtype != y.dtype || perm.size() != x.dims.size() || y.dims.size() != x.dims.size())
    return No(why,
              "perm " + DimsText(perm) + " does not take " + DimsText(x.dims) + " to " + DimsText(y.dims));
  Strided view;
  for (size_t d = 0; d < perm.size(); ++d) {
    const int64_t from = perm[d];
    if (from < 0 || from >= static_cast<int64_t>(perm.size()) || seen[static_cast<size_t>(from)] ||
        x.dims[static_cast<size_t>(from)] != y.dims[d])
      return No(why,
                "perm " + DimsText(perm) + " does not take " + DimsText(x.dims) + " to " + DimsText(y.dims));
    seen[static_cast<size_t>(from)] = true;
    view.dims.push_back(y.dims[d]);
    view.strides.push_back(strides[static_cast<size_t>(from)]);
  }
  return view;
}

std::optional<std::vector<Strided>> ConcatViews(const Attributes& attrs, const std::vector<TensorView>& x,
                                                const TensorView& y, std::string* why) {
  const auto rank = static_cast<int64_t>(y.dims.size());
  int64_t axis = attrs.Int("axis");
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return No(why, "axis is outside " + DimsText(y.dims));
  const auto a = static_cast<size_t>(axis);
  const std::vector<int64_t> strides = RowMajorStrides(y.dims);
  std::vector<Strided> views;
  int64_t at = 0;
  for (const TensorView& part : x) {
    std::vector<int64_t> expected = y.dims;
    if (part.dims.size() == y.dims.size()) expected[a] = part.dims[a];
    if (part.dims != expected || part.dtype != y.dtype)
      return No(why, DimsText(part.dims) + " is no part of " + DimsText(y.dims));
    views.push_back({part.dims, strides, at * strides[a]});
    at = SaturatingAdd(at, part.dims[a]);
  }
  if (at != y.dims[a]) return No(why, "the parts do not fill " + DimsText(y.dims));
  return views;
}

std::optional<Strided> SliceView(const Attributes& attrs, const TensorView& whole, const TensorView& part,
                                 std::string* why) {
  const size_t rank = whole.dims.size();
  const std::vector<int64_t> starts = attrs.Ints("starts"), steps = attrs.Ints("steps");
  if (whole.dtype != part.dtype || part.dims.size() != rank || starts.size() != rank || steps.size() != rank)
    return No(why, "starts and steps need one entry per axis of " + DimsText(whole.dims));
  Strided view{part.dims, RowMajorStrides(whole.dims), 0};
  for (size_t d = 0; d < rank; ++d) {
    const int64_t extent = part.dims[d];
    if (steps[d] < -kMaxStep || steps[d] > kMaxStep || starts[d] < -kMaxStep || starts[d] > kMaxStep)
      return No(why, "a start or step is out of range");
    const int64_t last = SaturatingAdd(starts[d], SaturatingMul(extent - 1, steps[d]));
    if (extent > 0 && (starts[d] < 0 || starts[d] >= whole.dims[d] || last < 0 || last >= whole.dims[d]))
      return No(why, "the slice " + DimsText(part.dims) + " leaves " + DimsText(whole.dims));
    if (part.elements > 0) view.offset += starts[d] * view.strides[d];
    view.strides[d] *= steps[d];
  }
  return view;
}

std::optional<PadShape> PadShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                   std::string* why) {
  const size_t rank = x.dims.size();
  const std::vector<int64_t> pads = attrs.Ints("pads");
  const std::string mode = attrs.String("mode", "constant");
  if (x.dtype != y.dtype || y.dims.size() != rank || pads.size() != 2 * rank)
    return No(why, "pads need two entries per axis of " + DimsText(x.dims));
  if (mode != "constant" && mode != "reflect" && mode != "edge") return No(why, "no mode '" + mode + "'");
  PadShape s;
  s.mode = mode == "constant" ? PadMode::kConstant : mode == "edge" ? PadMode::kEdge : PadMode::kReflect;
  s.x_strides = RowMajorStrides(x.dims);
  s.value = static_cast<float>(attrs.Float("value"));
  s.source.resize(rank);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t n = x.dims[d], begin = pads[d];
    if (begin < -kMaxStep || begin > kMaxStep ||
        SaturatingAdd(n, SaturatingAdd(begin, pads[rank + d])) != y.dims[d])
      return No(why,
                "pads " + DimsText(pads) + " do not take " + DimsText(x.dims) + " to " + DimsText(y.dims));
    if (y.elements == 0) continue;
    if (n == 0 && mode != "constant") return No(why, "an empty axis has no edge");
    for (int64_t o = 0; o < y.dims[d]; ++o) s.source[d].push_back(PadSource(o - begin, n, s.mode));
  }
  return s;
}

}  // namespace act
