// Gives the mean of a loss over many classes its denominator, the number of labels that count, as a value of
// its own. A tile of samples knows only its own labels, so without it the loss could not run in tiles.
#include <optional>
#include <vector>

#include "compiler/ops/graph_builder.h"
#include "compiler/ops/loss.h"
#include "compiler/ops/op_table.h"
#include "compiler/policy/large_loss.h"
#include "passes/pass.h"
#include "runtime/base/error.h"
#include "runtime/plan/alias.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// The operands of a cross entropy, or of its gradient.
struct Operands {
  size_t probabilities_or_scores, label, weight, denominator;
};
constexpr Operands kOfLoss{0, 1, 2, 3}, kOfGradient{1, 2, 3, 4};

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph), roots_(AliasRoots(graph)) {}

  llvm::Error Run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      if (OpOf(node).loss) ACT_CHECK_OK(Split(node, kOfLoss));
      if (OpOf(node).loss_gradient) ACT_CHECK_OK(Split(node, kOfGradient));
      graph_.nodes.push_back(std::move(node));
    }
    return llvm::Error::success();
  }

 private:
  // A denominator that has been computed, and of what.
  struct Denominator {
    ValueId label, weight;  // roots
    std::optional<int64_t> ignored;
    ValueId value;
  };

  llvm::Error Split(Node& node, const Operands& at) {
    const TensorType& scores = graph_.value(node.inputs[at.probabilities_or_scores]).type;
    if (node.attrs.String("reduction", "mean") != "mean" || !IsLargeLoss(scores))
      return llvm::Error::success();
    if (node.inputs.size() > at.denominator) return llvm::Error::success();
    node.inputs.resize(at.denominator + 1, kNoValue);
    const ValueId label = node.inputs[at.label], weight = node.inputs[at.weight];
    std::optional<int64_t> ignored;
    if (node.attrs.Has("ignore_index")) ignored = node.attrs.Int("ignore_index");
    for (const Denominator& d : made_)
      if (d.label == Root(label) && d.weight == Root(weight) && d.ignored == ignored) {
        node.inputs[at.denominator] = d.value;
        return llvm::Error::success();
      }
    GraphBuilder builder(graph_);
    builder.SetPhase(node.phase);
    ACT_TRY(const ValueId value, AddLossDenominator(builder, node.attrs, label, weight,
                                                    scores.dims.back().fixed, node.name + ".denominator"));
    made_.push_back({Root(label), Root(weight), ignored, value});
    node.inputs[at.denominator] = value;
    return llvm::Error::success();
  }

  // As many labels under another shape are the same labels.
  ValueId Root(ValueId v) const { return v == kNoValue ? v : roots_[static_cast<size_t>(v)]; }

  Graph& graph_;
  const std::vector<ValueId> roots_;  // of the values that the graph began with
  std::vector<Denominator> made_;
};

}  // namespace

llvm::Error SplitDenominators(Graph& graph, PassContext&) { return Splitter(graph).Run(); }

}  // namespace act
