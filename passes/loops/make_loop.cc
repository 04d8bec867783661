#include "passes/loops/make_loop.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/ops/codec_ops.h"
#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/loops/loops.h"
#include "passes/recognize/pattern.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// The number in a constant of one element.
std::optional<float> ScalarOf(const Value& value) {
  return value.type.Elements() == Dim(1) ? NumberIn(value) : std::nullopt;
}

}  // namespace

Node MakeLoop(const Graph& graph, const LoopNodes& group, const std::function<bool(ValueId)>& read_outside) {
  Node loop;
  loop.op = kFused;
  loop.phase = group.phase;
  ExprBuilder b;
  std::map<ValueId, Reg> reg;                       // of values that the loop makes or reads
  std::map<std::pair<ValueId, bool>, Reg> decoded;  // of codes, and of their masks
  // operands that are written in place, and their new registers
  std::vector<std::pair<ValueId, Reg>> writes;
  std::vector<ValueId> gradients;  // a parameter and its gradient, and so on
  const auto operand = [&](ValueId v) {
    const auto it = reg.find(v);
    if (it != reg.end()) return it->second;
    const std::optional<float> scalar = ScalarOf(graph.value(v));
    if (scalar) return reg[v] = b.Const(*scalar);
    loop.inputs.push_back(v);
    return reg[v] = b.Input({});
  };
  const auto emit = [&](ValueId v, OutputKind kind, Reg r, const Codec& codec = {}, int32_t stream = 0) {
    loop.outputs.push_back(v);
    b.Output(kind, r, codec, stream);
  };
  for (size_t i : group.nodes) {
    const Node& node = graph.nodes[i];
    if (!node.name.empty() && loop.name.size() < 160)
      if (loop.name.find(node.name) == std::string::npos)
        loop.name += (loop.name.empty() ? "" : "+") + node.name;
    const OpDef& def = OpOf(node);
    if (def.exprs) {
      Regs operands;
      for (ValueId v : node.inputs) operands.push_back(operand(v));
      const Regs results = def.exprs(b, node, operands);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        reg[node.outputs[o]] = results[o];
        emit(node.outputs[o], OutputKind::kStore, results[o]);
      }
      for (size_t m = 0; m < node.mutates.size(); ++m)
        writes.emplace_back(node.inputs[static_cast<size_t>(node.mutates[m])],
                            results[node.outputs.size() + m]);
      if (node.attrs.Has("gradient")) gradients.insert(gradients.end(), {node.inputs[0], node.inputs[1]});
      if (node.attrs.Has("sparse")) loop.attrs.Set("sparse", node.attrs.Int("sparse"));
      continue;
    }
    const ValueId out = node.outputs[0];
    const auto stream = static_cast<int32_t>(node.attrs.Int("stream"));
    if (def.coding == Coding::kDecode) {
      const auto key = std::make_pair(node.inputs[0], DecodesMask(node));
      if (!decoded.count(key)) {
        loop.inputs.push_back(node.inputs[0]);
        decoded[key] = b.Input({CodecOf(node.attrs), stream, DecodesMask(node)});
      }
      reg[out] = decoded[key];
    } else if (def.coding == Coding::kEncode) {
      emit(out, OutputKind::kEncode, operand(node.inputs[0]), CodecOf(node.attrs), stream);
      continue;
    } else if (IsLeadingSum(node, graph)) {
      emit(out, OutputKind::kSum, operand(node.inputs[0]));
      continue;
    } else if (RowAxesOf(node, graph) > 0) {
      const Reg row = operand(node.inputs[0]);
      reg[out] = b.Unary(def.reduction == Reduction::kMax ? Opcode::kRowMax : Opcode::kRowSum, row);
      const auto count = static_cast<float>(*RowElements(group.space, group.row_axes));
      if (def.reduction == Reduction::kMean) reg[out] = b.Div(reg[out], b.Const(count));
    } else {
      Regs operands;
      for (ValueId v : node.inputs) operands.push_back(operand(v));
      reg[out] = def.expr(b, node, operands);
    }
    const OutputKind kind =
        graph.value(out).type.dims == group.space ? OutputKind::kStore : OutputKind::kRowStore;
    if (read_outside(out)) emit(out, kind, reg[out]);
  }
  const auto position = [&loop](ValueId v) {
    return std::find(loop.inputs.begin(), loop.inputs.end(), v) - loop.inputs.begin();
  };
  for (const auto& [v, r] : writes) {
    loop.mutates.push_back(static_cast<int32_t>(position(v)));
    b.Output(OutputKind::kStore, r);
  }
  if (!gradients.empty()) {
    std::vector<int64_t> positions;
    positions.reserve(gradients.size());
    for (ValueId v : gradients) positions.push_back(position(v));
    loop.attrs.Set("gradients", positions);
  }
  loop.program = b.Finish(group.space);
  loop.program.row_axes = group.row_axes;
  return loop;
}

}  // namespace act
