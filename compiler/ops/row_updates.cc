#include "compiler/ops/row_updates.h"

#include <algorithm>

#include "runtime/plan/runtime_op.h"

namespace act {

static constexpr size_t kInto = 2;

bool AddsRowsIntoZeros(const Node& node) {
  return node.op == "Scatter" && node.attrs.String("reduction") == "add" && node.attrs.Int("axis", -1) == 0 &&
         (node.inputs.size() <= kInto || node.inputs[kInto] == kNoValue);
}

void AddRowsInto(Node& node, ValueId sum) {
  node.inputs.resize(std::max(node.inputs.size(), kInto + 1), kNoValue);
  node.inputs[kInto] = sum;
}

const char* UpdateByRows(const Node& update) {
  if (update.op == kFused) return "UpdateRows";
  if (update.op == "QuantizedAdam") return "QuantizedAdamRows";
  return update.op == "QuantizedMomentum" ? "QuantizedMomentumRows" : nullptr;
}

}  // namespace act
