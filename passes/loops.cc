#include "passes/loops.h"

#include <algorithm>

#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"

namespace act {
namespace {

// Sums over the first axes, which it drops: what a loop adds up column by column.
bool IsLeadingSum(const Node& node, const Graph& graph) {
  if (node.op != "ReduceSum") return false;
  const auto axes = node.attrs.Ints("axes");
  const size_t rank = graph.value(node.inputs[0]).type.dims.size();
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i)) return false;
  const bool drops_axes = graph.value(node.outputs[0]).type.dims.size() == rank - axes.size();
  return !axes.empty() && drops_axes;
}

bool IsCheapOpcode(Opcode op) {
  switch (op) {
    case Opcode::kAdd:
    case Opcode::kSub:
    case Opcode::kMul:
    case Opcode::kFma:
    case Opcode::kMax:
    case Opcode::kMin:
    case Opcode::kNeg:
    case Opcode::kAbs:
    case Opcode::kGreater:
    case Opcode::kEqual:
    case Opcode::kSelect:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool IsLoop(const Node& node, const Graph& graph) {
  const OpDef* def = FindOp(node.op);
  return (def && def->expr) || node.op == "Compress" || node.op == "Decompress" || IsLeadingSum(node, graph);
}

const Dims& LoopSpace(const Node& node, const Graph& graph) {
  const bool by_input = node.op == "Compress" || node.op == "ReduceSum";
  return graph.value(by_input ? node.inputs[0] : node.outputs[0]).type.dims;
}

bool RoundsWhenStored(const Node& node, const Graph& graph) {
  return node.op == "Cast" && graph.value(node.outputs[0]).type.dtype != DType::kFloat32;
}

bool IsCheapLoop(const Node& node) {
  if (node.op == "Decompress") return true;
  const OpDef* def = FindOp(node.op);
  if (!def || !def->expr) return false;
  ExprBuilder builder;
  std::vector<int> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(builder.Input({}));
  builder.Output({OutputKind::kStore, def->expr(builder, node, operands), {}, 0});
  const Program program = builder.Finish({});
  return std::all_of(program.instrs.begin(), program.instrs.end(),
                     [](const Instr& instr) { return IsCheapOpcode(instr.op); });
}

}  // namespace act
