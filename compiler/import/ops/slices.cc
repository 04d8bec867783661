#include "compiler/import/ops/slices.h"

#include <algorithm>

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
  return c.builder().Slice(x, starts, extents, steps, c.name());
}

std::vector<SliceRange> Whole(const Dims& dims) {
  std::vector<SliceRange> ranges;
  for (const Dim& dim : dims) ranges.push_back({0, dim, 1});
  return ranges;
}

}  // namespace act::onnx_import
