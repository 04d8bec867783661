#include "kernels/site/row_update_shape.h"

#include <algorithm>

namespace act {

std::optional<RowUpdateShape> RowUpdateShapeOf(const KernelSite& site, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  RowUpdateShape shape;
  const auto at = RowUpdateOf(*site.node);
  if (!at || site.inputs.size() != site.node->inputs.size()) return no("it names no table, rows and index");
  shape.at = *at;
  const TensorView &table = site.inputs[at->table], &rows = site.inputs[at->rows],
                   &index = site.inputs[at->index];
  Attributes first_axis;
  first_axis.Set("axis", int64_t{0});
  const auto lookup =
      LookupShapeOf(first_axis, table, rows, index, at->live ? &site.inputs[*at->live] : nullptr, why);
  if (!lookup) return std::nullopt;
  if (table.dtype != DType::kFloat32) return no("a table is f32");
  shape.lookup = *lookup;
  shape.table_rows = table.dims[0];
  shape.row_elements = table.elements / std::max<int64_t>(table.dims[0], 1);
  shape.indices = index.elements;
  if (index.elements != rows.dims[0] || rows.elements != shape.row_elements * shape.indices)
    return no("rows are whole, with one index each");
  return shape;
}

}  // namespace act
