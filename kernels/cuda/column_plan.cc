#include "kernels/cuda/column_plan.h"

#include <algorithm>

namespace act::cuda {
namespace {

// A part has at least this many rows for each thread: fewer are not worth a second launch.
constexpr int64_t kThreadRows = 16;

}  // namespace

bool AllMultiplesOf4(const std::vector<int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](int64_t number) { return number % 4 == 0; });
}

int64_t PowerOfTwoAbove(int64_t x) {
  int64_t power = 1;
  while (power < x) power *= 2;
  return power;
}

std::optional<Axes> AxesOf(const Strided& from, const Strided* to) {
  if (from.dims.size() > kMaxAxes || from.Elements() >= kMaxCount) return std::nullopt;
  Axes axes;
  for (size_t d = 0; d < from.dims.size(); ++d) {
    axes.dims[d] = DivisorOf(from.dims[d]);
    axes.from[d] = from.strides[d];
    if (to) axes.to[d] = to->strides[d];
  }
  axes.count = static_cast<int32_t>(from.dims.size());
  return axes;
}

std::optional<ColumnPlan> PlanColumns(const Strided& outer, int64_t length, const Strided& reduced,
                                      int64_t most_parts, bool aligned) {
  const auto outer_axes = AxesOf(outer), reduced_axes = AxesOf(reduced);
  const int64_t rows = reduced.Elements();
  if (!outer_axes || !reduced_axes || length >= kMaxCount) return std::nullopt;
  ColumnPlan plan;
  const bool vectors =
      aligned && length % 4 == 0 && AllMultiplesOf4(outer.strides) && AllMultiplesOf4(reduced.strides);
  plan.vector = vectors ? 4 : 1;
  plan.column_lanes = static_cast<int>(std::min<int64_t>(PowerOfTwoAbove(length / plan.vector), 32));
  const int64_t row_lanes = kColumnThreads / plan.column_lanes;
  const int64_t useful = DivideUp(rows, row_lanes * kThreadRows);
  const int64_t part_rows =
      std::max<int64_t>(DivideUp(rows, std::max<int64_t>(std::min(most_parts, useful), 1)), 1);
  const int64_t tiles = DivideUp(length, plan.column_lanes * plan.vector);
  const int64_t parts = std::max<int64_t>(DivideUp(rows, part_rows), 1);
  plan.blocks = outer.Elements() * tiles * parts;
  if (plan.blocks >= kMaxCount) return std::nullopt;
  plan.reduction = {.x = nullptr,
                    .outer = *outer_axes,
                    .reduced = *reduced_axes,
                    .length = static_cast<int32_t>(length),
                    .rows = static_cast<int32_t>(rows),
                    .tiles = static_cast<int32_t>(tiles),
                    .parts = static_cast<int32_t>(parts),
                    .part_rows = static_cast<int32_t>(part_rows)};
  return plan;
}

}  // namespace act::cuda
