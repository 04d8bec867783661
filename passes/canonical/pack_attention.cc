// Lets attention read queries, keys and values where the product that makes them leaves them. If
// they are the three slices of one tensor, attention gets that tensor, and its gradient is one
// tensor, too. Then no slice is copied, and no gradient of a slice is filled up with zeros and
// added to the others.
#include <algorithm>
#include <array>

#include "compiler/ir/rewrite_nodes.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

Dim Product(Dims::const_iterator begin, Dims::const_iterator end) {
  Dim product(1);
  for (auto d = begin; d != end; ++d) product = product * *d;
  return product;
}

class Packer {
 public:
  explicit Packer(Graph& graph) : graph_(graph), builder_(graph) {}

  llvm::Error Run() {
    return RewriteNodes(graph_, builder_, "Attention",
                        [this](Node& node, const Uses& uses) { return Pack(node, uses); });
  }

 private:
  // One of three equal slices of a tensor, seen as [outer, 3, inner].
  struct Third {
    ValueId of = kNoValue;
    Dim outer, inner;
    int64_t index = 0;
  };

  // The third of a tensor that `v` is, in any shape.
  std::optional<Third> ThirdOf(ValueId v, const Uses& uses) const {
    const Node* node = uses.ProducerNode(v);
    while (node && node->op == "Reshape") node = uses.ProducerNode(node->inputs[0]);
    if (!node || node->op != "Slice") return std::nullopt;
    const Dims &from = graph_.value(node->inputs[0]).type.dims,
               &to = graph_.value(node->outputs[0]).type.dims;
    const std::vector<int64_t> starts = node->attrs.Ints("starts"), steps = node->attrs.Ints("steps");
    std::optional<size_t> cut;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (steps[axis] != 1) return std::nullopt;
      if (from[axis] == to[axis]) continue;
      if (cut) return std::nullopt;
      cut = axis;
    }
    if (!cut || from[*cut] != to[*cut] * Dim(3) || !to[*cut].IsFixed() || to[*cut] == Dim(0) ||
        starts[*cut] % to[*cut].fixed != 0)
      return std::nullopt;
    const auto at = static_cast<std::ptrdiff_t>(*cut);
    return Third{node->inputs[0], Product(to.begin(), to.begin() + at), Product(to.begin() + at, to.end()),
                 starts[*cut] / to[*cut].fixed};
  }

  llvm::Error Pack(Node& node, const Uses& uses) {
    std::array<Third, 3> thirds;
    for (size_t i = 0; i < 3; ++i) {
      const auto third = ThirdOf(node.inputs[i], uses);
      if (!third || third->index != static_cast<int64_t>(i)) return llvm::Error::success();
      thirds[i] = *third;
    }
    const Dims dims = graph_.value(node.inputs[0]).type.dims;
    for (size_t i = 1; i < 3; ++i)
      if (thirds[i].of != thirds[0].of || thirds[i].outer != thirds[0].outer ||
          graph_.value(node.inputs[i]).type.dims != dims)
        return llvm::Error::success();
    for (size_t axis = 0; axis <= dims.size(); ++axis) {
      const auto at = dims.begin() + static_cast<std::ptrdiff_t>(axis);
      if (Product(dims.begin(), at) != thirds[0].outer || Product(at, dims.end()) != thirds[0].inner)
        continue;
      Dims packed = dims;
      packed.insert(packed.begin() + static_cast<std::ptrdiff_t>(axis), Dim(3));
      ACT_TRY(const ValueId qkv, builder_.Reshape(thirds[0].of, packed, node.name));
      std::fill_n(node.inputs.begin(), 3, qkv);
      node.attrs.Set("packed", static_cast<int64_t>(axis));
      break;
    }
    return llvm::Error::success();
  }

  Graph& graph_;
  GraphBuilder builder_;
};

}  // namespace

llvm::Error PackAttention(Graph& graph, PassContext&) { return Packer(graph).Run(); }

}  // namespace act
