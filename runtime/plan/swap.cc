#include "runtime/plan/swap.h"

#include <numeric>

#include "runtime/base/error.h"

namespace act {
namespace {

bool IsSwap(const Node& node) {
  const Runs runs = RunsOf(node);
  return runs == Runs::kSwapOut || runs == Runs::kSwapIn;
}

// Whether the value's storage is one of `host`.
bool On(const std::vector<bool>& host, const StepGraph& step, ValueId id) {
  const StorageId storage = step.storage_of[static_cast<size_t>(id)];
  return storage >= 0 && host[static_cast<size_t>(storage)];
}

llvm::Error CheckSwap(const StepGraph& step, const std::vector<bool>& host, const Node& node) {
  const std::string place = "node '" + node.name + "' (" + node.op + ")";
  if (!node.mutates.empty()) return MakeError(place, "writes in place");
  const TensorType &from = step.graph.value(node.inputs[0]).type,
                   &to = step.graph.value(node.outputs[0]).type;
  if (from != to) return MakeError(place, ToString(from) + " is not " + ToString(to));
  const bool out = RunsOf(node) == Runs::kSwapOut;
  if (On(host, step, node.inputs[0]) == out || On(host, step, node.outputs[0]) != out)
    return MakeError(place, out ? "does not copy from the arena to the host's memory"
                                : "does not copy from the host's memory to the arena");
  return llvm::Error::success();
}

}  // namespace

std::vector<bool> HostStorages(const StepGraph& step) {
  std::vector<bool> host(static_cast<size_t>(step.storages), false);
  for (const Node& node : step.graph.nodes) {
    if (RunsOf(node) != Runs::kSwapOut) continue;
    for (const ValueId id : node.outputs)
      if (const StorageId storage = step.storage_of[static_cast<size_t>(id)]; storage >= 0)
        host[static_cast<size_t>(storage)] = true;
  }
  return host;
}

std::vector<ValueId> BeforeSwaps(const Graph& graph) {
  std::vector<ValueId> before(graph.values.size());
  std::iota(before.begin(), before.end(), 0);
  for (const Node& node : graph.nodes)
    if (IsSwap(node))
      before[static_cast<size_t>(node.outputs[0])] = before[static_cast<size_t>(node.inputs[0])];
  return before;
}

void RemoveSwaps(StepGraph& step) {
  const std::vector<ValueId> before = BeforeSwaps(step.graph);
  std::erase_if(step.graph.nodes, IsSwap);
  for (Node& node : step.graph.nodes)
    for (ValueId& id : node.inputs)
      if (id != kNoValue) id = before[static_cast<size_t>(id)];
  for (size_t v = 0; v < before.size(); ++v)
    if (before[v] != static_cast<ValueId>(v)) step.storage_of[v] = -1;
}

llvm::Error CheckSwaps(const StepGraph& step) {
  const Graph& graph = step.graph;
  const std::vector<bool> host = HostStorages(step);
  for (const Node& node : graph.nodes) {
    if (IsSwap(node)) {
      ACT_CHECK_OK(CheckSwap(step, host, node));
      continue;
    }
    for (const auto* ids : {&node.inputs, &node.outputs})
      for (const ValueId id : *ids)
        if (id != kNoValue && On(host, step, id))
          return MakeError("node '" + node.name + "' (" + node.op + ")",
                           "touches value '" + graph.value(id).name + "' in the host's memory");
  }
  const auto elsewhere = [&](ValueId id) -> llvm::Error {
    if (!On(host, step, id)) return llvm::Error::success();
    return MakeError("value '" + graph.value(id).name + "'",
                     "is in the host's memory, but nothing swaps it there");
  };
  for (const ValueId id : graph.outputs) ACT_CHECK_OK(elsewhere(id));
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].kind != ValueKind::kActivation) ACT_CHECK_OK(elsewhere(static_cast<ValueId>(v)));
  return llvm::Error::success();
}

}  // namespace act
