#include "runtime/plan/operand_writes.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

struct InPlace {
  std::string_view op;
  size_t result, operand;
};
constexpr InPlace kInPlace[] = {
    {"Lstm", 2, 0},    {"LstmGrad", 0, 0}, {"Gru", 1, 0},     {"GruGrad", 0, 0},
    {"GruGrad", 1, 1}, {"Rnn", 0, 0},      {"RnnGrad", 0, 0},
};

// Operators other than loops that write operands, with the first that they write. They write all that follow.
struct Writes {
  std::string_view op;
  size_t first;
};
constexpr Writes kWrites[] = {{"BatchNormStats", 1}};  // running statistics

bool Writes(const Node& node, size_t operand) {
  return std::any_of(std::begin(kWrites), std::end(kWrites),
                     [&](const struct Writes& w) { return w.op == node.op && operand >= w.first; });
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
  return std::any_of(std::begin(kInPlace), std::end(kInPlace), [&](const InPlace& row) {
    return row.op == node.op && row.result == result && row.operand == operand;
  });
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
