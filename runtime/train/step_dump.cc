#include "runtime/train/step_dump.h"

#include <cstring>

#include "runtime/data/safetensors.h"
#include "runtime/train/checkpoint.h"

namespace act {

StepDump::StepDump(const BoundGraph& graph) : graph_(graph) {
  for (const Updated& updated : UpdatesOf(graph.step().graph)) {
    const BoundNode& bound = graph.nodes()[updated.node];
    const Value& parameter = graph.step().graph.value(bound.node->inputs[updated.parameter]);
    Gradient gradient{.name = "grad." + parameter.name,
                      .dims = bound.inputs[updated.parameter].dims,
                      .view = &bound.inputs[updated.gradient],
                      .copy = {}};
    gradient.copy.resize(static_cast<size_t>(gradient.view->bytes));
    by_update_.emplace(updated.node, std::move(gradient));
  }
}

llvm::Error StepDump::BeforeNode(size_t position) {
  const auto [begin, end] = by_update_.equal_range(position);
  for (auto it = begin; it != end; ++it)
    if (!it->second.copy.empty())
      std::memcpy(it->second.copy.data(), it->second.view->data, it->second.copy.size());
  return llvm::Error::success();
}

llvm::Error StepDump::Write(const std::string& path, double loss,
                            const std::vector<PersistentTensor>& tensors) const {
  std::vector<NamedTensor> named;
  const Graph& graph = graph_.step().graph;
  const auto rounded = static_cast<float>(loss);
  named.push_back({"loss",
                   {.dtype = DType::kFloat32,
                    .dims = {},
                    .data = reinterpret_cast<const std::byte*>(&rounded),
                    .bytes = sizeof rounded}});
  // Without an optimizer the gradients are outputs behind the loss, and named as such.
  for (size_t i = 1; i < graph.outputs.size(); ++i) {
    const std::string& name = graph.value(graph.outputs[i]).name;
    if (name.starts_with("grad.")) named.push_back({name, ViewOf(graph_.view(graph.outputs[i]))});
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
