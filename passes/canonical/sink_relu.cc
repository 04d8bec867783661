// Moves a ReLU from before a max pooling to after it: max(relu(x)) = relu(max(x)). The result is
// exact. So is the gradient: a window can choose another winner only if none of its elements passes
// the ReLU. After the pooling, the ReLU computes a quarter or a ninth of the elements, and as many
// fewer mask bits are stored.
#include <map>
#include <utility>

#include "compiler/ir/uses.h"
#include "passes/pass.h"

namespace act {

llvm::Error SinkRelu(Graph& graph, PassContext&) {
  const Uses uses(graph);
  const auto only_pooled = [&](ValueId v) {
    const int64_t reader = uses.Reads(v) == 1 ? uses.OnlyReader(v) : -1;
    return reader >= 0 && graph.nodes[static_cast<size_t>(reader)].op == "MaxPool";
  };
  std::map<ValueId, Node> taken;  // ReLUs that wait for their pooling, by their result
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    if (node.op == "Relu" && only_pooled(node.outputs[0])) {
      taken.emplace(node.outputs[0], std::move(node));
      continue;
    }
    const auto it = node.op == "MaxPool" ? taken.find(node.inputs[0]) : taken.end();
    if (it == taken.end()) {
      nodes.push_back(std::move(node));
      continue;
    }
    Node& relu = it->second;
    const auto largest = static_cast<ValueId>(graph.values.size());
    graph.values.push_back(graph.value(node.outputs[0]));
    node.inputs[0] = relu.inputs[0];
    relu.inputs[0] = largest;
    relu.outputs[0] = std::exchange(node.outputs[0], largest);
    nodes.push_back(std::move(node));
    nodes.push_back(std::move(relu));
  }
  graph.nodes = std::move(nodes);
  return llvm::Error::success();
}

}  // namespace act
