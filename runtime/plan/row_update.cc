#include "runtime/plan/row_update.h"

#include <algorithm>
#include <numeric>

#include "runtime/codec/dynamic_map.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

constexpr int64_t kFloat = 4, kInteger = 8, kLine = 64;

// Elements of the table from one row to the next. At least 0.
int64_t RowElements(const TensorType& table) {
  int64_t elements = 1;
  for (size_t axis = 1; axis < table.dims.size(); ++axis)
    elements = SaturatingMul(elements, std::max<int64_t>(table.dims[axis].fixed, 0));
  return elements;
}

bool IsFloat32(const TensorType& type) { return type.dtype == DType::kFloat32; }

// The same extents, but for the first.
bool HasRowsOf(const TensorType& table, const TensorType& rows) {
  return rows.rank() == table.rank() &&
         std::equal(rows.dims.begin() + 1, rows.dims.end(), table.dims.begin() + 1);
}

bool IsIndexOf(const TensorType& rows, const TensorType& index) {
  return (index.dtype == DType::kInt64 || index.dtype == DType::kInt32) && index.rank() == rows.rank() &&
         index.dims[0] == rows.dims[0] &&
         std::all_of(index.dims.begin() + 1, index.dims.end(), [](const Dim& dim) { return dim == Dim(1); });
}

bool IsFlagOf(const TensorType& rows, const TensorType& live) {
  return (live.dtype == DType::kBool || IsFloat32(live)) && live.dims == Dims{rows.dims[0]};
}

// A chunk's program is that of the whole table. So each operand is a number, or has the table's elements.
std::optional<std::string> WrongProgram(const Graph& graph, const Node& node, const RowUpdate& at) {
  const Program& program = node.program;
  const auto type = [&](size_t i) -> const TensorType& { return graph.value(node.inputs[i]).type; };
  const TensorType& table = type(at.table);
  if (const auto problem = CheckProgram(program)) return "its program: " + *problem;
  if (program.space != table.dims || program.row_axes != 0)
    return "its program is not of the table's elements";
  if (program.inputs.size() != at.index) return "its program has another number of inputs";
  if (program.outputs.size() != node.mutates.size()) return "its program has another number of outputs";
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) return "its program has no optional inputs";
    const bool whole = IsFloat32(type(i)) && type(i).dims == table.dims;
    if (program.inputs[i].codec.kind != CodecKind::kNone ||
        (i != at.rows && !whole && type(i).Elements() != Dim(1)))
      return "input " + std::to_string(i) + ", " + ToString(type(i)) +
             ", is neither a number nor of the table's " + ToString(table);
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const auto to = static_cast<size_t>(node.mutates[i]);
    if (program.outputs[i].kind != OutputKind::kStore || to >= at.index || to == at.rows || type(to) != table)
      return "does not write all of its operand " + std::to_string(to);
  }
  if (std::ranges::any_of(program.instrs, [](const Instr& instr) { return instr.op == Opcode::kDropout; }))
    return "its program draws random numbers";
  return std::nullopt;
}

}  // namespace

bool IsRowUpdate(const Node& node) {
  const RuntimeOp* op = FindRuntimeOp(node.op);
  return op && op->workspace[TargetKind::kCpu] == RowUpdateWorkspace;
}

std::optional<RowUpdate> RowUpdateOf(const Node& node) {
  const std::vector<int64_t> positions = node.attrs.Ints("row_gradient");
  const auto is_operand = [&node](int64_t at) {
    return at >= 0 && at < static_cast<int64_t>(node.inputs.size()) &&
           node.inputs[static_cast<size_t>(at)] != kNoValue;
  };
  if (!IsRowUpdate(node) || positions.size() != 3 || !std::ranges::all_of(positions, is_operand) ||
      std::max(positions[0], positions[1]) >= positions[2])
    return std::nullopt;
  RowUpdate at{static_cast<size_t>(positions[0]), static_cast<size_t>(positions[1]),
               static_cast<size_t>(positions[2]), std::nullopt};
  if (at.index + 1 < node.inputs.size() && node.inputs[at.index + 1] != kNoValue) at.live = at.index + 1;
  return at;
}

std::vector<RowUpdateNode> RowUpdatesOf(const Graph& graph) {
  std::vector<RowUpdateNode> updates;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto at = RowUpdateOf(graph.nodes[i]);
    if (at) updates.push_back({i, *at});
  }
  return updates;
}

RowChunks RowChunksOf(int64_t table_rows, int64_t row_elements) {
  const int64_t row = std::max<int64_t>(row_elements, 1);
  const int64_t unit = kMomentBlock / std::gcd(kMomentBlock, row);
  RowChunks chunks;
  chunks.rows = std::min(std::max<int64_t>(kRowChunkElements / row / unit, 1) * unit, table_rows);
  chunks.chunks = table_rows > 0 ? CeilDiv(table_rows, chunks.rows) : 0;
  return chunks;
}

RowUpdateScratch RowUpdateScratchOf(int64_t table_rows, int64_t row_elements, int64_t indices) {
  const RowChunks chunks = RowChunksOf(table_rows, row_elements);
  RowUpdateScratch scratch{};
  scratch.start_offset =
      RoundUp(SaturatingMul(SaturatingMul(chunks.rows, std::max<int64_t>(row_elements, 0)), kFloat), kLine);
  scratch.order_offset = RoundUp(
      SaturatingAdd(scratch.start_offset, SaturatingMul(SaturatingAdd(chunks.chunks, 1), kInteger)), kLine);
  scratch.bytes = SaturatingAdd(scratch.order_offset, SaturatingMul(indices, kInteger));
  return scratch;
}

CappedDim RowUpdateWorkspace(const Graph& graph, const Node& node, const Target&) {
  const auto at = RowUpdateOf(node);
  if (!at) return {};
  const TensorType &table = graph.value(node.inputs[at->table]).type,
                   &index = graph.value(node.inputs[at->index]).type;
  if (table.dims.empty()) return {};
  const int64_t table_rows = std::max<int64_t>(table.dims[0].fixed, 0);
  return Dim(RowUpdateScratchOf(table_rows, RowElements(table), 0).bytes) + index.Elements() * Dim(kInteger);
}

std::optional<std::string> WrongRowUpdate(const Graph& graph, const Node& node) {
  const auto at = RowUpdateOf(node);
  if (!at) return "does not say which of its operands are a table, rows and their index";
  const auto type = [&](size_t i) -> const TensorType& { return graph.value(node.inputs[i]).type; };
  const TensorType &table = type(at->table), &rows = type(at->rows), &index = type(at->index);
  if (!IsFloat32(table) || table.dims.empty() || !table.Elements().IsFixed() ||
      std::ranges::count(node.mutates, static_cast<int32_t>(at->table)) != 1)
    return "updates no table: " + ToString(table);
  if (!IsFloat32(rows) || !HasRowsOf(table, rows))
    return ToString(rows) + " are no rows of " + ToString(table);
  if (!IsIndexOf(rows, index)) return ToString(index) + " is no index of the rows " + ToString(rows);
  if (at->live && !IsFlagOf(rows, type(*at->live)))
    return ToString(type(*at->live)) + " are no flags of the rows " + ToString(rows);
  if (node.inputs.size() > at->index + 2) return "has operands after the flags of its rows";
  if (RunsProgram(node)) return WrongProgram(graph, node, *at);
  const RuntimeOp& op = *FindRuntimeOp(node.op);
  // The gradient is the first operand of the whole update. State in 8 bits has more operands than state in bfloat16.
  const int whole = static_cast<int>(at->index), least = op.operands.least - 1, most = op.operands.most - 2;
  if (at->rows != 0 || static_cast<int>(at->table) != op.writes_from || (whole != least && whole != most))
    return "has its table, rows and index elsewhere";
  return std::nullopt;
}

}  // namespace act
