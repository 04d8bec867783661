// The rows that an update of a table gets in place of its gradient (runtime/plan/row_update.h).
#pragma once

#include <optional>
#include <string>

#include "kernels/site/gather_shape.h"
#include "runtime/plan/row_update.h"

namespace act {

struct RowUpdateShape {
  RowUpdate at;        // positions of the operands
  LookupShape lookup;  // between the table and the rows
  int64_t table_rows = 0;
  int64_t row_elements = 0;  // contiguous in the table and in the rows
  int64_t indices = 0;
};

// Nullopt, with the reason in *why, if the operands do not fit.
std::optional<RowUpdateShape> RowUpdateShapeOf(const KernelSite& site, std::string* why);

// Calls f with the position among the rows, and with the row of the table, for all rows that count, in order.
// All indices are inside the table.
template <class F>
void ForRowsThatCount(const RowUpdateShape& s, const KernelArgs& args, F f) {
  const TensorView& index = args.inputs[s.at.index];
  const TensorView* live = s.at.live ? &args.inputs[*s.at.live] : nullptr;
  for (int64_t i = 0; i < s.indices; ++i)
    if (!live || IsLive(*live, i)) f(i, IndexAt(index, i, s.table_rows));
}

}  // namespace act
