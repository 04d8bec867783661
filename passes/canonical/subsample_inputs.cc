// Lets a convolution with a window of one element read every s-th position by itself, instead of with a stride of s. Its
// operand is then a Slice with 1/s^2 of the elements, and so is the operand's gradient: what the stride steps over has a
// gradient of 0, which need not lie in memory until it is added to that of the operand's other readers. The largest
// tensor of a residual network's stage is the sum at its end. Its last reader in the forward pass, and the first to make
// its gradient, is the convolution of the next stage's shortcut, which has such a stride.
//
// The products, and the order of their sums, are the same.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

bool StepsOverPositions(const Graph& graph, const Node& node) {
  if (OpOf(node).product != Product::kConvolution) return false;
  const Ints strides = node.attrs.Ints("strides"), pads = node.attrs.Ints("pads");
  const Dims& window = graph.value(node.inputs[1]).type.dims;
  return std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s > 1; }) &&
         std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; }) &&
         std::all_of(window.begin() + 2, window.end(), [](const Dim& d) { return d == Dim(1); });
}

class Subsampler {
 public:
  explicit Subsampler(Graph& graph)
      : graph_(graph),
        nodes_(std::exchange(graph.nodes, {})),
        uses_(graph, nodes_),
        slices_of_(nodes_.size()) {}

  llvm::Error Run() {
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (StepsOverPositions(graph_, nodes_[i])) ACT_CHECK_OK(Subsample(nodes_[i]));
    // Right after the operand, so that it need not wait for the convolution, nor the gradient's zeros for other gradients.
    graph_.nodes = std::move(first_);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      graph_.nodes.push_back(std::move(nodes_[i]));
      for (Node& slice : slices_of_[i]) graph_.nodes.push_back(std::move(slice));
    }
    return llvm::Error::success();
  }

 private:
  llvm::Error Subsample(Node& node) {
    // [N, positions.., C]: the result has the operand's positions that remain.
    Ints steps = node.attrs.Ints("strides");
    node.attrs.Set("strides", Ints(steps.size(), 1));
    steps.insert(steps.begin(), 1);
    steps.push_back(1);
    const ValueId x = node.inputs[0];
    Dims extents = graph_.value(node.outputs[0]).type.dims;
    extents.back() = graph_.value(x).type.dims.back();
    GraphBuilder builder(graph_);
    ACT_TRY(node.inputs[0],
            builder.Slice(x, Ints(steps.size(), 0), std::move(extents), steps, node.name + ".positions"));
    const int64_t maker = uses_.Producer(x);
    (maker < 0 ? first_ : slices_of_[static_cast<size_t>(maker)]).push_back(std::move(graph_.nodes.back()));
    graph_.nodes.pop_back();
    return llvm::Error::success();
  }

  Graph& graph_;
  std::vector<Node> nodes_;
  const Uses uses_;
  std::vector<Node> first_;                   // slices of what no node makes
  std::vector<std::vector<Node>> slices_of_;  // those of each node's results
};

}  // namespace

llvm::Error SubsampleInputs(Graph& graph, PassContext&) { return Subsampler(graph).Run(); }

}  // namespace act
