// Makes the result of a product twice where a normalization by batch statistics follows it: once for the statistics,
// once for what is normalized by them. The statistics need all samples before the first of them is normalized, so
// a result that is made once lies in memory whole. Made twice, both times in tiles of samples (tile_samples.cc), it
// never exists whole. The statistics become moments, to which each tile adds (Chan, Golub and LeVeque 1979).
//
// Both products are the same node with the same operands. So all that changes is the order in which the moments are
// added up.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "compiler/ir/value_map.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "runtime/base/error.h"
#include "runtime/plan/sample_loops.h"

namespace act {
namespace {

class Repeater {
 public:
  Repeater(Graph& graph, int64_t least_elements)
      : graph_(graph),
        least_elements_(least_elements),
        nodes_(std::exchange(graph.nodes, {})),
        uses_(graph, nodes_),
        again_(graph, kNoValue) {}

  llvm::Error Run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (const Node* const product = ProductToRepeat(i)) {
        ACT_CHECK_OK(SplitStatistics(node));
        MakeAgain(*product);
        continue;
      }
      for (ValueId& in : node.inputs)
        if (again_[in] != kNoValue) in = again_[in];
      graph_.nodes.push_back(node);
    }
    return llvm::Error::success();
  }

 private:
  // The product whose statistics the node at i takes, if other nodes of the forward pass read the result after them.
  const Node* ProductToRepeat(size_t i) const {
    if (OpOf(nodes_[i]).norm.role != Normalization::Role::kStatistics) return nullptr;
    const ValueId x = nodes_[i].inputs[0];
    const Node* const product = uses_.ProducerNode(x);
    if (!product || !IsLinearProduct(OpOf(*product)) || uses_.IsOutput(x) ||
        WhyNotTileable(graph_, *product) || graph_.value(x).type.Elements().At(1) < least_elements_)
      return nullptr;
    const std::span<const size_t> readers = uses_.Readers(x);
    const bool reads_after = std::all_of(readers.begin(), readers.end(), [&](size_t r) {
      return r == i || (r > i && nodes_[r].phase == Phase::kForward);
    });
    return reads_after && readers.size() > 1 ? product : nullptr;
  }

  llvm::Error SplitStatistics(const Node& statistics) {
    GraphBuilder builder(graph_);
    builder.SetPhase(statistics.phase);
    Node from_moments = statistics;
    ACT_TRY(from_moments.inputs[0],
            builder.Add1("BatchNormMoments", {statistics.inputs[0]}, {}, statistics.name + ".moments"));
    from_moments.op = "BatchNormFromMoments";
    graph_.nodes.push_back(std::move(from_moments));
    return llvm::Error::success();
  }

  void MakeAgain(const Node& product) {
    Node again = product;
    again.name += ".again";
    Value result = graph_.value(product.outputs[0]);
    result.name += ".again";
    again.outputs = {static_cast<ValueId>(graph_.values.size())};
    again_[product.outputs[0]] = again.outputs[0];
    graph_.values.push_back(std::move(result));
    graph_.nodes.push_back(std::move(again));
  }

  Graph& graph_;
  const int64_t least_elements_;
  std::vector<Node> nodes_;
  const Uses uses_;
  ValueMap<ValueId> again_;  // the second result, by the first
};

}  // namespace

llvm::Error RepeatProducts(Graph& graph, PassContext& context) {
  return Repeater(graph, context.repeated_elements).Run();
}

}  // namespace act
