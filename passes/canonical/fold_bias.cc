// A bias behind a product becomes an operand of it: the product adds it while its sums are in registers, and
// what follows need not store a second form of the result.
#include <algorithm>

#include "compiler/ops/graph_builder.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph), builder_(graph) {}

  llvm::Error Run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    readers_.assign(graph_.values.size(), 0);
    producer_.assign(graph_.values.size(), nullptr);
    for (const Node& node : nodes) {
      for (ValueId v : node.outputs) producer_[static_cast<size_t>(v)] = &node;
      for (ValueId v : node.inputs)
        if (v != kNoValue) ++readers_[static_cast<size_t>(v)];
    }
    for (ValueId v : graph_.outputs) ++readers_[static_cast<size_t>(v)];
    for (const Node& node : nodes) {
      builder_.SetPhase(node.phase);
      ACT_TRY(const bool folded, Fold(node));
      if (!folded) graph_.nodes.push_back(node);
    }
    return llvm::Error::success();
  }

 private:
  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }

  // The product stands where the sum did: the bias may be made between the two. The old one is dead code.
  llvm::Expected<bool> Fold(const Node& sum) {
    if (sum.op != "Add" || (sum.phase != Phase::kForward && sum.phase != Phase::kBackward)) return false;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId y = sum.inputs[i], bias = sum.inputs[1 - i];
      const Node* product = producer_[static_cast<size_t>(y)];
      if (!product || product->op != "MatMul" || product->inputs.size() != 2 ||
          readers_[static_cast<size_t>(y)] != 1 || DimsOf(y) != DimsOf(sum.outputs[0]))
        continue;
      const Dims &dims = DimsOf(bias), columns{DimsOf(y).back()};
      if (dims.empty() || dims.back() != columns[0] || graph_.value(bias).type.Elements() != columns[0])
        continue;
      Node folded = *product;
      ACT_TRY(const ValueId flat, builder_.Reshape(bias, columns, "layout"));
      folded.inputs.push_back(flat);
      folded.outputs = sum.outputs;
      graph_.nodes.push_back(std::move(folded));
      return true;
    }
    return false;
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<int> readers_;
  std::vector<const Node*> producer_;  // of the values that the graph had before
};

}  // namespace

llvm::Error FoldBias(Graph& graph, PassContext&) { return Folder(graph).Run(); }

}  // namespace act
