#include "runtime/train/gradient_capture.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace act {
namespace {

constexpr char kGradient[] = "grad.";

}  // namespace

GradientWatch::GradientWatch(const BoundGraph& bound)
    : device_(bound.device()), nodes_(bound.nodes().size()) {
  const Graph& graph = bound.step().graph;
  for (const Updated& updated : UpdatesOf(graph)) {
    const BoundNode& node = bound.nodes()[updated.node];
    sources_.push_back({.name = graph.value(node.node->inputs[updated.parameter]).name,
                        .dims = node.inputs[updated.parameter].dims,
                        .before = updated.node,
                        .view = &node.inputs[updated.gradient]});
  }
  // The loss is the first output.
  for (size_t i = 1; i < graph.outputs.size(); ++i) {
    const std::string& name = graph.value(graph.outputs[i]).name;
    if (!name.starts_with(kGradient)) continue;
    const TensorView& view = bound.view(graph.outputs[i]);
    sources_.push_back(
        {.name = name.substr(sizeof kGradient - 1), .dims = view.dims, .before = nodes_, .view = &view});
  }
}

llvm::Error GradientWatch::BeforeNode(size_t position) {
  const auto before = [](const Source& source, size_t node) { return source.before < node; };
  auto it = std::lower_bound(sources_.begin(), sources_.end(), position, before);
  for (; it != sources_.end() && it->before == position; ++it)
    ACT_CHECK_OK(See(static_cast<size_t>(it - sources_.begin())));
  return llvm::Error::success();
}

llvm::Error GradientWatch::AfterNode(size_t position) {
  return position + 1 == nodes_ ? BeforeNode(nodes_) : llvm::Error::success();
}

GradientCapture::GradientCapture(const BoundGraph& bound) : GradientWatch(bound) {
  for (const Source& source : sources())
    gradients_.push_back({.name = source.name,
                          .dims = source.dims,
                          .dtype = source.view->dtype,
                          .bytes = std::vector<std::byte>(static_cast<size_t>(source.view->bytes))});
}

llvm::Error GradientCapture::See(size_t i) {
  return device().Download(gradients_[i].bytes, sources()[i].view->data);
}

}  // namespace act
