#include "compiler/ops/row_updates.h"

#include "runtime/plan/runtime_op.h"

namespace act {

bool AddsRowsIntoZeros(const Node& node) {
  constexpr size_t kInto = 2;
  return node.op == "Scatter" && node.attrs.String("reduction") == "add" && node.attrs.Int("axis", -1) == 0 &&
         (node.inputs.size() <= kInto || node.inputs[kInto] == kNoValue);
}

const char* UpdateByRows(const Node& update) {
  if (update.op == kFused) return "UpdateRows";
  if (update.op == "QuantizedAdam") return "QuantizedAdamRows";
  return update.op == "QuantizedMomentum" ? "QuantizedMomentumRows" : nullptr;
}

}  // namespace act
