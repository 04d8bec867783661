// Lets the gradient of an embedding table exist a few rows at a time. A Gather's gradient is a Scatter that adds
// rows into zeros, as large as the table. If nothing but the table's update reads it, and the update computes
// each element from the same element of its operands, both nodes become one that does so for a chunk of the
// table's rows after the other (runtime/plan/row_update.h). Each element is added up in the same order as before,
// and updated by the same operations, so the step's numbers stay the same to the last bit.
//
// A gradient that something else reads stays whole: its norm is asked for (clipping, --grad-norm), it is added to
// a sum over micro-batches, another gradient is added to it (tied embeddings), it is an output, or the step of its
// parameter needs all of it (LAMB).
#include <algorithm>
#include <optional>

#include "compiler/ir/uses.h"
#include "compiler/ops/row_updates.h"
#include "passes/pass.h"
#include "runtime/plan/row_update.h"

namespace act {
namespace {

// The node that takes the place of the update and of the scatter. Nullopt if the update cannot work by rows.
std::optional<Node> ByRows(const Graph& graph, const Node& update, const Node& scatter) {
  constexpr size_t kLive = 3;
  const std::vector<int64_t> gradient = update.attrs.Ints("gradients");
  if (gradient.size() != 2 || !update.outputs.empty()) return std::nullopt;
  Node node = update;
  node.op = UpdateByRows(update);
  node.attrs = {};
  for (const auto& [name, value] : update.attrs.map())
    if (name != "gradients") node.attrs.Set(name, value);
  node.attrs.Set("row_gradient",
                 std::vector<int64_t>{gradient[0], gradient[1], static_cast<int64_t>(update.inputs.size())});
  node.inputs[static_cast<size_t>(gradient[1])] = scatter.inputs[0];
  node.inputs.push_back(scatter.inputs[1]);
  if (scatter.inputs.size() > kLive && scatter.inputs[kLive] != kNoValue)
    node.inputs.push_back(scatter.inputs[kLive]);
  if (WrongRowUpdate(graph, node)) return std::nullopt;
  return node;
}

// A table of one chunk would have its whole gradient in the scratch space.
bool HasSeveralChunks(const TensorType& table) {
  const int64_t rows = table.dims[0].fixed;
  return rows > 0 && RowChunksOf(rows, table.Elements().fixed / rows).chunks > 1;
}

}  // namespace

llvm::Error UpdateRows(Graph& graph, PassContext&) {
  const Uses uses(graph);
  std::vector<bool> dropped(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& update = graph.nodes[i];
    const std::vector<int64_t> gradient = update.attrs.Ints("gradients");
    if (update.phase != Phase::kUpdate || !UpdateByRows(update) || gradient.size() != 2) continue;
    const ValueId whole = update.inputs[static_cast<size_t>(gradient[1])];
    const int64_t maker = uses.Producer(whole);
    if (maker < 0 || !AddsRowsIntoZeros(graph.nodes[static_cast<size_t>(maker)]) || uses.Reads(whole) != 1 ||
        !HasSeveralChunks(graph.value(whole).type))
      continue;
    std::optional<Node> node = ByRows(graph, update, graph.nodes[static_cast<size_t>(maker)]);
    if (!node) continue;
    update = *std::move(node);
    dropped[static_cast<size_t>(maker)] = true;
  }
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!dropped[i]) nodes.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(nodes);
  return llvm::Error::success();
}

}  // namespace act
