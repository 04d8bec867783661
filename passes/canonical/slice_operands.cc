// Moves a Slice of a product's rows from the result to the operand: (x W + b)[rows] = x[rows] W + b. The result is exact,
// and so is the gradient. A language model that predicts the next token cuts the last token's scores off this way. Its
// scores then never exist with that token, so that the loss, which follows them at once, can run for some tokens at a
// time (passes/planning/tile_samples.cc), and no gradient of theirs is filled with zeros.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

class Slicer {
 public:
  explicit Slicer(Graph& graph)
      : graph_(graph), nodes_(std::exchange(graph.nodes, {})), uses_(graph, nodes_), moved_(nodes_.size()) {}

  llvm::Error Run() {
    std::vector<bool> gone(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (OpOf(nodes_[i]).movement != Movement::kSlice) continue;
      std::vector<size_t> chain = ChainOf(nodes_[i]);
      if (chain.empty()) continue;
      ACT_CHECK_OK(Move(nodes_[i], chain));
      gone[i] = true;
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (moved_[i]) graph_.nodes.push_back(std::move(*moved_[i]));
      if (!gone[i]) graph_.nodes.push_back(std::move(nodes_[i]));
    }
    return llvm::Error::success();
  }

 private:
  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }

  // The nodes whose result the slice takes rows of, last to first: sums with a row, and the product. Empty: there is no
  // such product, or other nodes read these results, too, or the operand has as many columns as the result.
  std::vector<size_t> ChainOf(const Node& slice) const {
    const Dims& rows = DimsOf(slice.outputs[0]);
    std::vector<size_t> chain;
    for (ValueId v = slice.inputs[0]; uses_.Reads(v) == 1;) {
      if (DimsOf(v).back() != rows.back()) return {};
      const int64_t maker = uses_.Producer(v);
      if (maker < 0) return {};
      const Node& node = nodes_[static_cast<size_t>(maker)];
      chain.push_back(static_cast<size_t>(maker));
      if (IsProductOfRows(node)) return chain;
      const std::optional<ValueId> summand = SummandOfRow(node);
      if (!summand) return {};
      v = *summand;
    }
    return {};
  }

  // Whether each row of the first operand makes a row of the result, which is longer. If that operand is an input, which
  // stays for the backward pass in any case, a slice of it would stay beside it.
  bool IsProductOfRows(const Node& node) const {
    if (OpOf(node).product != Product::kMatrix || graph_.value(node.inputs[0]).kind == ValueKind::kInput)
      return false;
    const Dims &x = DimsOf(node.inputs[0]), &y = DimsOf(node.outputs[0]);
    return DimsOf(node.inputs[1]).size() == 2 && x.size() == y.size() && node.attrs.Int("trans_a", 0) == 0 &&
           node.inputs.size() == 2 && x.back().per_batch == 0 && x.back().fixed < y.back().fixed;
  }

  // The operand that is no row, if the other one is.
  std::optional<ValueId> SummandOfRow(const Node& add) const {
    if (OpOf(add).arithmetic != Arithmetic::kSum || add.inputs.size() != 2) return std::nullopt;
    const size_t rank = DimsOf(add.outputs[0]).size();
    for (const size_t row : {0, 1})
      if (DimsOf(add.inputs[row]).size() == 1 && DimsOf(add.inputs[1 - row]).size() == rank && rank > 1)
        return add.inputs[1 - row];
    return std::nullopt;
  }

  // Puts the slice before the product. The chain's results get the slice's dims, and its last one takes the slice's place.
  llvm::Error Move(const Node& slice, const std::vector<size_t>& chain) {
    const Dims rows = DimsOf(slice.outputs[0]);
    Node& product = nodes_[chain.back()];
    Dims extents = rows;
    extents.back() = DimsOf(product.inputs[0]).back();
    GraphBuilder builder(graph_);
    ACT_TRY(product.inputs[0], builder.Slice(product.inputs[0], slice.attrs.Ints("starts"),
                                             std::move(extents), slice.attrs.Ints("steps"), slice.name));
    moved_[chain.back()] = std::move(graph_.nodes.back());
    graph_.nodes.pop_back();
    for (const size_t i : chain) graph_.value(nodes_[i].outputs[0]).type.dims = rows;
    nodes_[chain.front()].outputs[0] = slice.outputs[0];
    return llvm::Error::success();
  }

  Graph& graph_;
  std::vector<Node> nodes_;
  const Uses uses_;
  std::vector<std::optional<Node>> moved_;  // the slice that stands before a product
};

}  // namespace

llvm::Error SliceOperands(Graph& graph, PassContext&) { return Slicer(graph).Run(); }

}  // namespace act
