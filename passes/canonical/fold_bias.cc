// Makes a bias that is added to a product an operand of the product. The product adds the bias
// while its sums are in registers, and the nodes after it need not store
// a second form of the result.
#include <algorithm>

#include "compiler/ir/rewrite_nodes.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph), builder_(graph) {}

  llvm::Error Run() {
    return RewriteNodes(graph_, builder_, "Add",
                        [this](Node& node, const Uses& uses) { return Fold(node, uses); });
  }

 private:
  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }

  // The new product takes the place of the sum, since the bias may be made between the two. The old
  // product is dead code.
  llvm::Error Fold(Node& sum, const Uses& uses) {
    if (sum.phase != Phase::kForward && sum.phase != Phase::kBackward) return llvm::Error::success();
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId y = sum.inputs[i], bias = sum.inputs[1 - i];
      const Node* product = uses.ProducerNode(y);
      if (!product || product->op != "MatMul" || product->inputs.size() != 2 || uses.Reads(y) != 1 ||
          DimsOf(y) != DimsOf(sum.outputs[0]))
        continue;
      const Dims &dims = DimsOf(bias), columns{DimsOf(y).back()};
      if (dims.empty() || dims.back() != columns[0] || graph_.value(bias).type.Elements() != columns[0])
        continue;
      Node folded = *product;
      ACT_TRY(const ValueId flat, builder_.Reshape(bias, columns, "layout"));
      folded.inputs.push_back(flat);
      folded.outputs = sum.outputs;
      sum = std::move(folded);
      break;
    }
    return llvm::Error::success();
  }

  Graph& graph_;
  GraphBuilder builder_;
};

}  // namespace

llvm::Error FoldBias(Graph& graph, PassContext&) { return Folder(graph).Run(); }

}  // namespace act
