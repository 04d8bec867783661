// Updates of a table of which a step looks up rows. The gradient of such a table is zero but for these rows, and
// so it is never made whole: the update gets the gradients of the rows and their places in the table. It makes
// the gradient of some rows of the table at a time (a chunk), and updates these.
//
// The attribute `row_gradient` of such a node holds three positions among its operands: the table, the gradients
// of the rows, their index. An operand after the index is a flag for each row. Rows whose flag is 0 add nothing.
// All operands before the index are those of the update with a whole gradient, in whose place the gradients of
// the rows are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/capped_dim.h"
#include "runtime/base/target.h"
#include "runtime/plan/graph.h"

namespace act {

// Whether the node's operator is such an update: the table of operators gives it RowUpdateWorkspace.
bool IsRowUpdate(const Node& node);

// Positions among the node's operands.
struct RowUpdate {
  size_t table, rows, index;
  std::optional<size_t> live;  // none: every row counts
};
// Nullopt if the node is no such update, or its attribute is missing, names operands that the node does not have,
// or puts the index before them.
std::optional<RowUpdate> RowUpdateOf(const Node& node);

// All of a graph.
struct RowUpdateNode {
  size_t node;
  RowUpdate at;
};
std::vector<RowUpdateNode> RowUpdatesOf(const Graph& graph);

// Some 512 KiB of a table's rows make a chunk. It has whole blocks of moments of 8 bits.
inline constexpr int64_t kRowChunkElements = int64_t{1} << 17;
struct RowChunks {
  int64_t rows = 0;    // of each chunk but the last, which may have fewer
  int64_t chunks = 0;  // 0 for a table without rows
};
RowChunks RowChunksOf(int64_t table_rows, int64_t row_elements);

// The scratch space: the gradient of a chunk, where each chunk's rows begin, and the rows' order.
struct RowUpdateScratch {
  int64_t start_offset, order_offset;  // of 64-bit integers; the gradient is first
  int64_t bytes;
};
RowUpdateScratch RowUpdateScratchOf(int64_t table_rows, int64_t row_elements, int64_t indices);
CappedDim RowUpdateWorkspace(const Graph& graph, const Node& node, const Target& target);

// What is wrong with the rows, their index, or the program of such a node, whose operands are values of the
// graph. Nullopt if nothing is. A part of CheckPlan.
std::optional<std::string> WrongRowUpdate(const Graph& graph, const Node& node);

}  // namespace act
