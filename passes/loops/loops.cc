#include "passes/loops/loops.h"

#include <algorithm>

#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"

namespace act {
namespace {

bool IsReduction(const Node& node) { return OpOf(node).reduction != Reduction::kNone; }

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

bool IsLeadingSum(const Node& node, const Graph& graph) {
  if (OpOf(node).reduction != Reduction::kSum) return false;
  const auto axes = node.attrs.Ints("axes");
  const size_t rank = graph.value(node.inputs[0]).type.dims.size();
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i)) return false;
  const bool drops_axes = graph.value(node.outputs[0]).type.dims.size() == rank - axes.size();
  return !axes.empty() && drops_axes;
}

int32_t RowAxesOf(const Node& node, const Graph& graph) {
  if (!IsReduction(node)) return 0;
  auto axes = node.attrs.Ints("axes");
  std::sort(axes.begin(), axes.end());
  const Dims& dims = graph.value(node.inputs[0]).type.dims;
  if (axes.empty() || graph.value(node.outputs[0]).type.dims.size() != dims.size()) return 0;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(dims.size() - axes.size() + i)) return 0;
  const auto count = static_cast<int32_t>(axes.size());
  return RowElements(dims, count) ? count : 0;
}

bool IsLoop(const Node& node, const Graph& graph) {
  const OpDef& def = OpOf(node);
  return def.expr || def.exprs || def.coding != Coding::kNone || IsLeadingSum(node, graph) ||
         RowAxesOf(node, graph) > 0;
}

const Dims& LoopSpace(const Node& node, const Graph& graph) {
  const bool by_input = OpOf(node).coding == Coding::kEncode || IsReduction(node);
  const bool in_place = node.outputs.empty();
  return graph.value(by_input || in_place ? node.inputs[0] : node.outputs[0]).type.dims;
}

bool RoundsWhenStored(const Node& node, const Graph& graph) {
  return OpOf(node).converts && graph.value(node.outputs[0]).type.dtype != DType::kFloat32;
}

bool InOnePass(Phase a, Phase b) {
  return (a == Phase::kForward) == (b == Phase::kForward) && (a == Phase::kUpdate) == (b == Phase::kUpdate);
}

bool IsCheapLoop(const Node& node) {
  const OpDef& def = OpOf(node);
  if (def.coding == Coding::kDecode) return true;
  if (!def.expr) return false;
  ExprBuilder builder;
  Regs operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(builder.Input({}));
  builder.Output(OutputKind::kStore, def.expr(builder, node, operands));
  const Program program = builder.Finish({});
  return std::all_of(program.instrs.begin(), program.instrs.end(),
                     [](const Instr& instr) { return IsCheapOpcode(instr.op); });
}

}  // namespace act
