// Splits loops that make some of their results from labels alone and others from what the model computes, in a model
// with a large loss: how many labels count, beside the sum that this number divides; which labels count, beside a penalty
// of the scores under them. The loss runs in tiles of samples (tile_samples.cc). A tile's gradient needs the number, so
// the number must be complete before the first tile, and the sum is complete only after the last one.
//
// Fuse-loops makes these loops, because the labels are then read once. They are few beside the scores.
#include <algorithm>
#include <vector>

#include "compiler/ir/value_map.h"
#include "compiler/ops/op_table.h"
#include "compiler/policy/large_loss.h"
#include "passes/pass.h"
#include "passes/planning/part_of_loop.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

constexpr int64_t kFew = 64;  // a loop over at most this part of the scores' elements is worth a second one

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph), computed_(graph) {}

  void Run() {
    for (const Node& node : graph_.nodes)
      if (OpOf(node).loss && IsLargeLoss(ScoresOf(node)))
        scores_ = std::max(scores_, ScoresOf(node).Elements().per_batch);
    if (scores_ == 0) return;
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      std::vector<size_t> of_labels, of_model;
      for (size_t r = 0; r < node.outputs.size(); ++r)
        (IsComputed(node, r) ? of_model : of_labels).push_back(r);
      for (const size_t r : of_model) computed_[node.outputs[r]] = true;
      if (of_labels.empty() || of_model.empty()) {
        graph_.nodes.push_back(std::move(node));
        continue;
      }
      graph_.nodes.push_back(PartOfLoop(node, of_labels));
      graph_.nodes.push_back(PartOfLoop(node, of_model));
      graph_.nodes.back().name += ".computed";
    }
  }

 private:
  const TensorType& ScoresOf(const Node& loss) const { return graph_.value(loss.inputs[0]).type; }

  // Whether a product has a part in the node's result.
  bool IsComputed(const Node& node, size_t result) const {
    if (OpOf(node).product != Product::kNone) return true;
    const std::vector<ValueId>& inputs = MaySplit(node) ? PartOfLoop(node, {result}).inputs : node.inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId in) { return computed_[in]; });
  }

  bool MaySplit(const Node& node) const {
    return RunsProgram(node) && node.mutates.empty() && node.outputs.size() > 1 &&
           node.program.outputs.size() == node.outputs.size() && LoopElements(node) <= scores_ / kFew;
  }
  static int64_t LoopElements(const Node& node) {
    return TensorType{DType::kFloat32, node.program.space}.Elements().per_batch;
  }

  Graph& graph_;
  int64_t scores_ = 0;       // the elements a sample of the largest loss's scores; 0: no loss is large
  ValueMap<bool> computed_;  // of values: whether a product has a part in them
};

}  // namespace

llvm::Error SplitLabelLoops(Graph& graph, PassContext&) {
  Splitter(graph).Run();
  return llvm::Error::success();
}

}  // namespace act
