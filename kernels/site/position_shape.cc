#include "kernels/site/position_shape.h"

#include <algorithm>

#include "kernels/site/strided.h"

namespace act {

std::optional<std::vector<int64_t>> FlatIndexExtentsOf(const KernelSite& site, std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  if (site.inputs.empty() || site.outputs.empty()) return no("needs tuples and a result");
  const TensorView &tuples = site.inputs[0], &y = site.outputs[0];
  const std::vector<int64_t> numbers = site.node->attrs.Ints("extents");
  const auto length = static_cast<int64_t>(numbers.size() / 3);
  if ((tuples.dtype != DType::kInt64 && tuples.dtype != DType::kInt32) || y.dtype != DType::kInt64 ||
      length == 0 || tuples.dims.empty() || tuples.dims.back() != length ||
      y.elements != tuples.elements / length)
    return no("tuples " + DimsText(tuples.dims) + " do not fit their extents");
  std::vector<int64_t> extents;
  for (size_t k = 0; k + 2 < numbers.size(); k += 3)
    extents.push_back(Dim(numbers[k], numbers[k + 1], numbers[k + 2]).At(site.batch));
  if (*std::min_element(extents.begin(), extents.end()) < 0 || ElementCount(extents) >= kTooLarge)
    return no("axes of " + DimsText(extents) + " are too large");
  return extents;
}

std::optional<RangeShape> RangeShapeOf(const KernelSite& site, std::string* why) {
  const std::vector<int64_t> start = site.node->attrs.Ints("start");
  if (start.size() != 3 || site.outputs.size() != 1 || site.outputs[0].dtype != DType::kInt64) {
    if (why) *why = "needs a start of three numbers and one i64 result";
    return std::nullopt;
  }
  return RangeShape{Dim(start[0], start[1], start[2]).At(site.batch), site.node->attrs.Int("step")};
}

bool NonZeroFits(const KernelSite& site, std::string* why) {
  const auto no = [why](const std::string& reason) {
    if (why) *why = reason;
    return false;
  };
  if (site.inputs.empty() || site.outputs.size() != 2) return no("needs x, coordinates and flags");
  const TensorView &x = site.inputs[0], &at = site.outputs[0], &live = site.outputs[1];
  const auto rank = static_cast<int64_t>(x.dims.size());
  if (at.dtype != DType::kInt64 || at.dims != std::vector<int64_t>{rank, x.elements} ||
      live.dtype != DType::kBool || live.elements != x.elements || x.dtype == DType::kFloat16 ||
      x.dtype == DType::kBFloat16)
    return no("results do not fit " + DimsText(x.dims));
  return true;
}

}  // namespace act
