// Makes a bias that is added to a product an operand of the product. The product adds the bias
// while its sums are in registers, and the nodes after it need not store
// a second form of the result.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/ir/rewrite_nodes.h"
#include "compiler/ir/value_map.h"
#include "passes/pass.h"
#include "runtime/base/error.h"
#include "runtime/plan/alias.h"

namespace act {
namespace {

class Folder {
 public:
  explicit Folder(Graph& graph)
      : graph_(graph), builder_(graph), root_(AliasRoots(graph)), written_at_(graph, kNever) {
    for (size_t i = graph.nodes.size(); i-- > 0;)
      for (const int32_t m : graph.nodes[i].mutates)
        written_at_[Root(graph.nodes[i].inputs[static_cast<size_t>(m)])] = static_cast<int64_t>(i);
  }

  llvm::Error Run() {
    return RewriteNodes(graph_, builder_, "Add",
                        [this](Node& node, const Uses& uses) { return Fold(node, uses); });
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }

  ValueId Root(ValueId v) const { return v == kNoValue ? v : root_[static_cast<size_t>(v)]; }

  // Are the product's operands at the node at `place` what they are at the product? Its weight may be updated in
  // between, where a gradient of one row is added to another one.
  bool ReadsTheSameAt(const Node& product, int64_t place) const {
    return std::all_of(product.inputs.begin(), product.inputs.end(),
                       [&](ValueId in) { return place < written_at_[Root(in)]; });
  }

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
      if (!ReadsTheSameAt(*product, uses.Producer(sum.outputs[0]))) continue;
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
  std::vector<ValueId> root_;
  ValueMap<int64_t> written_at_;  // by root: the first node that writes it
};

}  // namespace

llvm::Error FoldBias(Graph& graph, PassContext&) { return Folder(graph).Run(); }

}  // namespace act
