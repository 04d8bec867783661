#include "runtime/data/batch_source.h"

#include <cmath>
#include <cstring>

#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// The extent that the labels or indices at position 1 must stay below. 0 if the node has none, or
// if the extent is unknown.
int64_t ClassesOf(const Graph& graph, const Node& node, PositionsOn positions) {
  if (positions == PositionsOn::kNothing) return 0;
  const Dims& dims = OperandType(graph, node, 0).dims;
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t axis = positions == PositionsOn::kLastAxis ? -1 : node.attrs.Int("axis");
  return axis < -rank || axis >= rank ? 0 : dims[static_cast<size_t>(axis < 0 ? axis + rank : axis)].fixed;
}

template <class Float>
bool AnyNotFinite(const std::byte* data, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    Float x;
    std::memcpy(&x, data + i * static_cast<int64_t>(sizeof x), sizeof x);
    if (!std::isfinite(x)) return true;
  }
  return false;
}

}  // namespace

std::vector<InputSlot> InputSlots(const Graph& graph) {
  // Backwards, so that the bound of a value is known before that of the value it was made from.
  std::vector<int64_t> classes(graph.values.size());
  const auto note = [&](ValueId id, int64_t bound) {
    if (id == kNoValue || bound <= 0) return;
    int64_t& known = classes[static_cast<size_t>(id)];
    known = known == 0 ? bound : std::min(known, bound);
  };
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const RuntimeOp* op = FindRuntimeOp(node->op);
    if (!op) continue;
    if (op->moves_numbers) {
      for (ValueId id : node->inputs) note(id, classes[static_cast<size_t>(node->outputs[0])]);
    } else if (node->inputs.size() >= 2 && node->inputs[0] != kNoValue) {
      note(node->inputs[1], ClassesOf(graph, *node, op->positions));
    }
  }
  std::vector<InputSlot> slots;
  for (ValueId id : graph.inputs) {
    slots.push_back({graph.value(id).name, graph.value(id).type, classes[static_cast<size_t>(id)]});
  }
  return slots;
}

bool HasNotFinite(DType dtype, const std::byte* data, int64_t elements) {
  if (dtype == DType::kFloat32) return AnyNotFinite<float>(data, elements);
  if (dtype == DType::kFloat64) return AnyNotFinite<double>(data, elements);
  return false;
}

}  // namespace act
