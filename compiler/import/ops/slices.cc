#include "compiler/import/ops/slices.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

namespace act::onnx_import {

llvm::Expected<ValueId> SliceOf(const NodeContext& c, ValueId x, const std::vector<SliceRange>& ranges) {
  std::vector<int64_t> starts, steps;
  Dims extents;
  for (const SliceRange& range : ranges) {
    starts.push_back(range.start);
    steps.push_back(range.step);
    extents.push_back(range.extent);
  }
  const bool all = extents == c.TypeOf(x).dims &&
                   std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; });
  if (all) return x;
  const auto stacked = c.importer.stacked.find(x);
  if (stacked != c.importer.stacked.end() && extents[stacked->second.axis] == Dim(1)) {
    const auto& [axis, parts] = stacked->second;
    std::vector<SliceRange> of_part = ranges;
    of_part[axis] = {0, Dim(1), 1};
    return SliceOf(c, parts[static_cast<size_t>(starts[axis])], of_part);
  }
  return c.builder().Slice(x, starts, extents, steps, c.name());
}

std::vector<SliceRange> Whole(const Dims& dims) {
  std::vector<SliceRange> ranges;
  for (const Dim& dim : dims) ranges.push_back({0, dim, 1});
  return ranges;
}

llvm::Expected<std::vector<Cut>> ReadSlice(const NodeContext& c, size_t rank, size_t i) {
  ACT_TRY(const auto axes_given, c.Integers(i + 2, "axes"));
  ACT_TRY(const auto steps_given, c.Integers(i + 3, "steps"));
  Dims starts, ends;
  for (const auto& [input, name, dims] : {std::tuple{i, "starts", &starts}, {i + 1, "ends", &ends}}) {
    if (c.Has(input)) {
      ACT_TRY(*dims, c.Polynomials(input));
    } else if (!c.attrs.Has(name)) {
      return c.Fail(std::string("gives no ") + name);
    } else {
      for (int64_t at : c.attrs.Ints(name)) dims->push_back(at);
    }
  }
  if (starts.size() != ends.size()) return c.Fail("starts and ends must have the same length");
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (axes_given) axes = *axes_given;
  if (steps_given) steps = *steps_given;
  if (axes.size() != ends.size() || steps.size() != ends.size())
    return c.Fail("axes and steps must be as many as starts");
  std::vector<Cut> cuts;
  for (size_t k = 0; k < axes.size(); ++k) {
    ACT_TRY(const size_t axis, c.Axis(axes[k], rank));
    cuts.push_back({axis, starts[k], ends[k], steps[k]});
  }
  return cuts;
}

}  // namespace act::onnx_import
