// Decides for each derived node (a function of forward values that only backward reads) in which
// pass it runs. It runs in the forward pass if that makes what is stored smaller (a ReLU's mask
// instead of its result), or its code unbiased (1 - y^2 instead of y, which backward would square).
// Otherwise it runs in the backward pass.
#include <set>

#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/storage/saved_values.h"

namespace act {
namespace {

class Placer {
 public:
  Placer(Graph& graph, PassContext& context) : graph_(graph), context_(context), saved_(graph, context) {}

  void Run() {
    while (model_nodes_ < graph_.nodes.size() && saved_.InForward(model_nodes_)) ++model_nodes_;
    Place();
    OrderHoisted();
  }

 private:
  Node& node(size_t i) { return graph_.nodes[i]; }

  void Place() {
    // Values that a reader needs as numbers. They are stored whatever happens to the masks made
    // from them.
    std::set<ValueId> kept_numbers;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (saved_.InForward(i)) continue;
      if (node(i).phase == Phase::kDerived && OpOf(node(i)).boolean) continue;
      for (ValueId v : node(i).inputs)
        if (v != kNoValue && saved_.MadeInForward(v)) kept_numbers.insert(v);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (node(i).phase != Phase::kDerived) continue;
      node(i).phase = ShouldHoist(i, kept_numbers) ? Phase::kForward : Phase::kBackward;
      if (!saved_.InForward(i)) continue;
      for (const size_t other : Chain(i)) node(other).phase = Phase::kForward;
      for (ValueId v : node(i).inputs)
        if (v != kNoValue && saved_.FeedsProduct(v))
          context_.marks[node(i).outputs[0]].from_product_input = true;
    }
  }

  // The derived nodes that node i reads and that stay in the backward pass unless it takes them
  // along, and the derived nodes that those read.
  std::set<size_t> Chain(size_t i) {
    std::set<size_t> chain;
    std::vector<size_t> open{i};
    while (!open.empty()) {
      const Node& n = node(open.back());
      open.pop_back();
      for (ValueId v : n.inputs) {
        const int64_t p = v == kNoValue ? -1 : saved_.Producer(v);
        if (p < 0 || saved_.InForward(static_cast<size_t>(p))) continue;
        if (chain.insert(static_cast<size_t>(p)).second) open.push_back(static_cast<size_t>(p));
      }
    }
    return chain;
  }

  // The values of the forward pass that node i and its chain read.
  std::set<ValueId> ForwardInputs(size_t i) {
    std::set<ValueId> inputs;
    std::set<size_t> nodes = Chain(i);
    nodes.insert(i);
    for (const size_t n : nodes)
      for (ValueId v : node(n).inputs)
        if (v != kNoValue && saved_.MadeInForward(v)) inputs.insert(v);
    return inputs;
  }

  bool ShouldHoist(size_t i, const std::set<ValueId>& kept_numbers) {
    const Node& n = node(i);
    if (OnlyMoves(n)) return false;
    // Re-runs start from the normalized values, whether these are coded or kept.
    const OpDef& op = OpOf(n);
    if (op.norm.role == Normalization::Role::kNormalize && op.norm.by_rows && context_.policy.Reruns())
      return true;
    bool all_at_hand = true, lossy = false, direct_readers = true;
    for (ValueId v : ForwardInputs(i)) {
      const bool coded = saved_.CodesLossily(v);
      lossy |= coded;
      all_at_hand &= kept_numbers.count(v) != 0 && !coded;
      bool direct = false;
      for (size_t r : saved_.Readers(v)) direct |= node(r).phase == Phase::kBackward;
      direct_readers &= !coded || direct;
    }
    if (op.boolean) return !all_at_hand;
    if (!lossy) return false;
    // If it is affine in a value whose code is stored anyway, that is decoded. Otherwise this result is stored instead.
    // A channel's deviation may be far below a step of that code, whose groups hold other channels too: then the code's
    // error, divided by it, is far larger than the normalized numbers.
    const bool divides = op.norm.role == Normalization::Role::kNormalize && !op.norm.by_rows;
    return op.nonlinear || divides || !direct_readers;
  }

  // Puts hoisted nodes right after the last producer of their inputs, so that their inputs need not
  // live on.
  void OrderHoisted() {
    std::vector<Node> forward, backward;
    for (Node& n : graph_.nodes) (n.phase == Phase::kForward ? forward : backward).push_back(std::move(n));
    // behind[v]: the model's node after which v is made. -1: v is made before all of them.
    ValueMap<int64_t> behind(graph_, -1);
    // by the node that they follow; 0: before all
    std::vector<std::vector<size_t>> hoisted(model_nodes_ + 1);
    for (size_t i = 0; i < forward.size(); ++i) {
      int64_t last = static_cast<int64_t>(i);
      if (i >= model_nodes_) {
        last = -1;
        for (ValueId v : forward[i].inputs)
          if (v != kNoValue) last = std::max(last, behind[v]);
        hoisted[static_cast<size_t>(last + 1)].push_back(i);
      }
      for (ValueId v : forward[i].outputs) behind[v] = last;
    }
    graph_.nodes.clear();
    for (size_t i = 0; i <= model_nodes_; ++i) {
      if (i > 0) graph_.nodes.push_back(std::move(forward[i - 1]));
      for (size_t h : hoisted[i]) graph_.nodes.push_back(std::move(forward[h]));
    }
    for (Node& n : backward) graph_.nodes.push_back(std::move(n));
  }

  Graph& graph_;
  PassContext& context_;
  SavedValues saved_;
  size_t model_nodes_ = 0;  // forward nodes of the model; derived nodes come after them
};

}  // namespace

llvm::Error PlaceDerived(Graph& graph, PassContext& context) {
  Placer(graph, context).Run();
  return llvm::Error::success();
}

}  // namespace act
