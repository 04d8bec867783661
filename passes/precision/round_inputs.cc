#include "passes/precision/round_inputs.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "compiler/ir/uses.h"
#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/precision/round_factors.h"

namespace act {
namespace {

// Whether every reader of v multiplies it, or moves it to a value of which that is true.
bool OnlyProductsRead(const Graph& graph, const Uses& uses, ValueId v) {
  if (uses.IsOutput(v) || uses.Readers(v).empty()) return false;
  for (const size_t r : uses.Readers(v)) {
    const Node& node = graph.nodes[r];
    const bool product = OpOf(node).product != Product::kNone;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != v) continue;
      const char letter = BFloat16Letter(LettersOf(node).operands, i);
      const bool moved = letter == 's' && node.inputs.size() == 1;
      if (product ? letter == '-' : !moved || !OnlyProductsRead(graph, uses, node.outputs[0])) return false;
    }
  }
  return true;
}

// What narrow-values has to halve.
SavedEdge EdgeOf(const Graph& graph, const Uses& uses, ValueId input, ValueId copy) {
  SavedEdge edge;
  edge.name = graph.value(input).name;
  edge.form = "keep";
  edge.reason = "products read the input in bfloat16";
  edge.bits = 8 * static_cast<double>(ByteSize(DType::kFloat32));
  edge.bytes = graph.value(copy).type.Bytes();
  edge.bytes_uncompressed = graph.value(input).type.Bytes();
  for (const size_t r : uses.Readers(input)) {
    const Node& node = graph.nodes[r];
    const std::string reader = node.name + " (" + node.op + ")";
    if (node.phase != Phase::kForward) edge.consumers.push_back(reader);
  }
  return edge;
}

}  // namespace

void RoundInputs(Graph& graph, Marks& marks, std::vector<SavedEdge>& edges) {
  const Uses uses(graph);
  std::vector<Node> loops;
  for (const ValueId input : graph.inputs) {
    if (graph.value(input).type.dtype != DType::kFloat32 || !OnlyProductsRead(graph, uses, input)) continue;
    const auto copy = static_cast<ValueId>(graph.values.size());
    Value value;
    value.name = graph.value(input).name + ".bf16";
    value.type = graph.value(input).type;
    graph.values.push_back(std::move(value));
    marks[copy].precision = Precision::kBFloat16;
    SavedEdge edge = EdgeOf(graph, uses, input, copy);
    if (!edge.consumers.empty()) {
      marks[copy].edges.push_back(static_cast<int32_t>(edges.size()));
      edges.push_back(std::move(edge));
    }
    for (const size_t r : uses.Readers(input))
      std::replace(graph.nodes[r].inputs.begin(), graph.nodes[r].inputs.end(), input, copy);
    Node loop;
    loop.op = kFused;
    loop.name = graph.value(input).name + ".round";
    loop.inputs = {input};
    loop.outputs = {copy};
    ExprBuilder b;
    b.Output(OutputKind::kStore, b.Input({}));
    loop.program = b.Finish(graph.value(copy).type.dims);
    loops.push_back(std::move(loop));
  }
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(loops.begin()),
                     std::make_move_iterator(loops.end()));
}

}  // namespace act
