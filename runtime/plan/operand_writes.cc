#include "runtime/plan/operand_writes.h"

#include <algorithm>

#include "runtime/plan/row_update.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

bool Writes(const Node& node, size_t operand) {
  const RuntimeOp* op = FindRuntimeOp(node.op);
  if (!op || op->writes_from == RuntimeOp::kNone || operand < static_cast<size_t>(op->writes_from))
    return false;
  const auto rows = RowUpdateOf(node);  // whose index and flags come after what it writes
  return !rows || operand < rows->index;
}

// Each tile of the operand is read before that tile of the result is written.
bool LoopMayOverwrite(const Graph& graph, const Node& node, size_t result, size_t operand) {
  const Program& program = node.program;
  if (result >= program.outputs.size() || program.outputs[result].kind != OutputKind::kStore) return false;
  if (operand >= program.inputs.size() || program.inputs[operand].codec.kind != CodecKind::kNone)
    return false;
  const TensorType &from = graph.value(node.inputs[operand]).type,
                   &to = graph.value(node.outputs[result]).type;
  return from.dtype == to.dtype && from.Elements() == to.Elements();
}

}  // namespace

bool MayOverwrite(const Graph& graph, const Node& node, size_t result, size_t operand) {
  if (RunsProgram(node)) return LoopMayOverwrite(graph, node, result, operand);
  const RuntimeOp* op = FindRuntimeOp(node.op);
  if (!op) return false;
  // Packed queries, keys and values are one operand in three places.
  if (node.attrs.Has("packed") && operand >= 1 && operand <= 3) operand = 1;
  for (size_t i = 0; i + 1 < op->in_place.size(); i += 2)
    if (op->in_place[i] - '0' == static_cast<int>(result) &&
        op->in_place[i + 1] - '0' == static_cast<int>(operand))
      return true;
  return false;
}

std::optional<std::string> WrongMutates(const Graph& graph, const Node& node) {
  for (const int32_t position : node.mutates) {
    if (position < 0 || position >= static_cast<int32_t>(node.inputs.size()) ||
        node.inputs[static_cast<size_t>(position)] == kNoValue) {
      return "mutates an input that it does not have";
    }
    const Value& value = graph.value(node.inputs[static_cast<size_t>(position)]);
    if (!IsPersistent(value.kind) || value.kind == ValueKind::kConstant) {
      return "mutates value '" + value.name + "', which is no parameter, buffer or optimizer state";
    }
    if (value.coded) return "mutates value '" + value.name + "', of which the arena has a code";
  }
  if (RunsProgram(node)) return std::nullopt;  // it writes what `mutates` says
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool mutates = std::count(node.mutates.begin(), node.mutates.end(), static_cast<int32_t>(i)) > 0;
    if (node.inputs[i] != kNoValue && mutates != Writes(node, i))
      return (mutates ? "does not write operand " : "writes operand ") + std::to_string(i) +
             (mutates ? ", which it mutates" : " without mutating it");
  }
  return std::nullopt;
}

}  // namespace act
