#include "kernels/site/gather_shape.h"

#include "kernels/site/loss_shape.h"
#include "runtime/base/dtype_kind.h"

namespace act {

std::optional<LookupShape> LookupShapeOf(const Attributes& attrs, const TensorView& whole,
                                         const TensorView& part, const TensorView& index,
                                         const TensorView* live, std::string* why) {
  const auto no = [&](const std::string& what) {
    if (why)
      *why = what + ": index " + DimsText(index.dims) + " between " + DimsText(whole.dims) + " and " +
             DimsText(part.dims);
    return std::nullopt;
  };
  const size_t rank = whole.dims.size();
  const int64_t axis = attrs.Int("axis", -1);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return no("axis " + std::to_string(axis));
  if (part.dims.size() != rank || index.dims.size() != rank || whole.dtype != part.dtype)
    return no("ranks or element types differ");
  if (index.dtype != DType::kInt64 && index.dtype != DType::kInt32) return no("i64 or i32 indices only");
  const auto a = static_cast<size_t>(axis);
  for (size_t d = 0; d < rank; ++d) {
    if (index.dims[d] != part.dims[d] && (d == a || index.dims[d] != 1)) return no("axis does not fit");
    if (d != a && part.dims[d] > whole.dims[d]) return no("axis does not fit");
  }
  if (live &&
      (live->elements != part.dims[a] ||
       (live->dtype != DType::kFloat32 && live->dtype != DType::kBool && live->dtype != DType::kUint8)))
    return no("live flags " + DimsText(live->dims) + " do not fit");

  LookupShape s;
  s.whole = {part.dims, RowMajorStrides(whole.dims), 0};
  s.index = {part.dims, RowMajorStrides(index.dims), 0};
  for (size_t d = 0; d < rank; ++d)
    if (index.dims[d] == 1) s.index.strides[d] = 0;
  s.extent = whole.dims[a];
  s.step = s.whole.strides[a];
  s.whole.strides[a] = 0;
  s.indices = index.elements;
  s.index_dtype = index.dtype;
  s.live_extent = part.dims[a];
  for (size_t d = a + 1; d < rank; ++d) s.live_rows = SaturatingMul(s.live_rows, part.dims[d]);
  // Trailing axes that are contiguous in both tensors and have a single index.
  for (size_t d = rank; d-- > a + 1 && s.index.strides[d] == 0 && s.whole.strides[d] == s.length;) {
    s.length *= part.dims[d];
    s.live_rows = part.dims[d] > 0 ? s.live_rows / part.dims[d] : 1;
    s.whole.dims.pop_back();
    s.whole.strides.pop_back();
    s.index.dims.pop_back();
    s.index.strides.pop_back();
  }
  return s;
}

std::string LookupShape::CheckIndices(const TensorView& index) const {
  for (int64_t i = 0; i < index.elements; ++i) {
    const int64_t at = IndexAt(index, i, 0);
    if (at >= -extent && at < extent) continue;
    std::string where;
    int64_t rest = i;
    for (size_t d = index.dims.size(); d-- > 0; rest /= index.dims[d])
      where = std::to_string(rest % index.dims[d]) + (where.empty() ? "" : ",") + where;
    return "index " + std::to_string(at) + " at [" + where + "] is outside an axis of extent " +
           std::to_string(extent);
  }
  return "";
}

static std::optional<Reduction> ReductionOf(const Attributes& attrs, DType dtype, std::string* why) {
  const std::string name = attrs.String("reduction", "none");
  if (name == "none") return Reduction::kNone;
  if (IsFloat32OrInteger(dtype)) {
    if (name == "add") return Reduction::kAdd;
    if (name == "mul") return Reduction::kMul;
    if (name == "min") return Reduction::kMin;
    if (name == "max") return Reduction::kMax;
  }
  if (why) *why = "no reduction '" + name + "' of " + std::string(ToString(dtype));
  return std::nullopt;
}

std::optional<ScatterShape> ScatterShapeOf(const KernelSite& site, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  if (site.inputs.size() < 2 || site.outputs.empty()) return no("needs updates, index and a result");
  const TensorView& y = site.outputs[0];
  const auto reduction = ReductionOf(site.node->attrs, y.dtype, why);
  if (!reduction) return std::nullopt;
  const auto lookup =
      LookupShapeOf(site.node->attrs, y, site.inputs[0], site.inputs[1], OptionalInput(site.inputs, 3), why);
  if (!lookup) return std::nullopt;
  const TensorView* x = OptionalInput(site.inputs, 2);
  if (x && (x->dims != y.dims || x->dtype != y.dtype))
    return no("the scatter's target does not have the dims of the result");
  return ScatterShape{*lookup, *reduction};
}

}  // namespace act
