// The operators of a table's gradient and update, by which rows take the gradient's place
// (runtime/plan/row_update.h).
#pragma once

#include "runtime/plan/graph.h"

namespace act {

// Whether the node adds rows into zeros at the places that an index names along the first axis: the gradient of a
// table from that of the rows that were looked up. Operands: rows, index, none, flags?.
bool AddsRowsIntoZeros(const Node& node);
// Makes such a node add them to `sum`, of the table's type.
void AddRowsInto(Node& node, ValueId sum);

// The operator that does what this update does, with rows in the place of the gradient. Null: there is none.
const char* UpdateByRows(const Node& update);

}  // namespace act
