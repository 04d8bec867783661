#include "runtime/train/step_dump.h"

#include <cstring>

#include "runtime/data/safetensors.h"
#include "runtime/train/checkpoint.h"

namespace act {

StepDump::StepDump(const BoundGraph& graph) : graph_(graph) {
  // Every update reads parameter, state..., gradient.
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const BoundNode& bound = graph.nodes()[i];
    const Node& node = *bound.node;
    if (node.phase != Phase::kUpdate || node.inputs.size() < 2) continue;
    const Value& parameter = graph.step().graph.value(node.inputs.front());
    Gradient gradient{.name = "grad." + parameter.name,
                      .dims = bound.inputs.front().dims,
                      .view = &bound.inputs.back(),
                      .copy = {}};
    gradient.copy.resize(static_cast<size_t>(gradient.view->bytes));
    by_update_.emplace(i, std::move(gradient));
  }
}

llvm::Error StepDump::BeforeNode(size_t position) {
  const auto it = by_update_.find(position);
  if (it != by_update_.end() && !it->second.copy.empty()) {
    std::memcpy(it->second.copy.data(), it->second.view->data, it->second.copy.size());
  }
  return llvm::Error::success();
}

llvm::Error StepDump::Write(const std::string& path, const std::vector<PersistentTensor>& tensors) const {
  std::vector<NamedTensor> named;
  const Graph& graph = graph_.step().graph;
  // The loss comes first; without an optimizer the gradients are outputs too, and named as such.
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::string& name = graph.value(graph.outputs[i]).name;
    if (i > 0 && !name.starts_with("grad.")) continue;
    named.push_back({i == 0 ? "loss" : name, ViewOf(graph_.view(graph.outputs[i]))});
  }
  for (const auto& [position, gradient] : by_update_) {
    named.push_back({gradient.name,
                     {.dtype = gradient.view->dtype,
                      .dims = gradient.dims,
                      .data = gradient.copy.data(),
                      .bytes = static_cast<int64_t>(gradient.copy.size())}});
  }
  for (const PersistentTensor& tensor : tensors) {
    if (tensor.kind == ValueKind::kBuffer) named.push_back({"buffer." + tensor.name, ViewOf(tensor.view)});
  }
  return WriteSafetensors(path, named);
}

}  // namespace act
