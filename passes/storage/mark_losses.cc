// Marks what needs more than a level's bits because of where the loss, or a steep function, reads it.
//
// * What no product follows from belongs to the loss (loss_part.h). A trained network's loss has small gradients: p - y
//   of a sigmoid p and its label y, say. A step of p's code must not be larger than that.
// * Steep functions are 1 / x, roots and logarithms of what may come near 0. Their slopes enlarge errors by any factor,
//   and what multiplies such a gradient is as steep: d sqrt(x^2 + eps) is x / sqrt(x^2 + eps), so that an error of 1 / 8
//   in x = 0 becomes one of 1 / (8 sqrt(eps)). What leads to a steep function by elementwise operators alone is
//   therefore as unbounded as its slope. An average over many numbers lowers the error, so that a norm that a model
//   spells out is none of these.
// * In a loss no average follows that would lower such an error. So whatever leads to a steep function of it, or
//   follows from one, is kept exactly. These are tensors of the predictions' size, which the backward pass reads first.
#include <algorithm>

#include "compiler/ir/loss_part.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"

namespace act {
namespace {

class Marker {
 public:
  Marker(const Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        leads_(LeadToProducts(graph)),
        made_(graph),
        before_(graph),
        near_(graph) {}

  void Run() {
    for (const Node& node : graph_.nodes)
      if (node.phase == Phase::kForward)
        for (const ValueId v : node.outputs) made_[v] = true;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node)
      if (node->phase == Phase::kForward) FindWhatLeads(*node);
    ValueMap<bool> after(graph_);
    for (const Node& node : graph_.nodes) {
      if (node.phase == Phase::kForward) {
        const bool follows = IsSteep(node) || Any(node.inputs, after);
        for (const ValueId v : node.outputs) {
          ValueMarks& marks = context_.marks[v];
          after[v] = follows && !leads_[v];
          marks.of_loss = !leads_[v];
          marks.of_steep_loss = marks.of_loss && (before_[v] || after[v]);
          marks.near_steep = near_[v];
        }
      } else if (node.phase == Phase::kDerived) {  // place-derived may move it to the forward pass
        for (const ValueId v : node.inputs)
          for (const ValueId result : node.outputs) Derive(v, result);
      }
    }
  }

 private:
  static bool Any(const std::vector<ValueId>& values, const ValueMap<bool>& of) {
    return std::any_of(values.begin(), values.end(), [&](ValueId v) { return v != kNoValue && of[v]; });
  }
  // A constant divisor is not near 0. Where a sample has few divisors (norms of rows, the sums of Dice), their gradients
  // are sums over many numbers, which lower errors.
  bool IsSteep(const Node& node) const {
    const OpDef& op = OpOf(node);
    if (op.steep_operand < 0 || (op.slope_is_bounded && op.slope_is_bounded(graph_, node))) return false;
    const ValueId operand = node.inputs[static_cast<size_t>(op.steep_operand)];
    return made_[operand] && graph_.value(operand).type.Elements().At(1) >= context_.policy.group_size;
  }
  void FindWhatLeads(const Node& node) {
    const OpDef& op = OpOf(node);
    const bool steep = IsSteep(node);
    const bool passes = (op.expr || op.movement != Movement::kNone) && Any(node.outputs, near_);
    const bool leads = steep || Any(node.outputs, before_);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNoValue) continue;
      if (leads) before_[v] = true;
      if (passes || (steep && static_cast<int>(i) == op.steep_operand)) near_[v] = true;
    }
  }
  void Derive(ValueId from, ValueId to) {
    if (from == kNoValue) return;
    const ValueMarks marks = context_.marks[from];
    context_.marks[to].of_loss |= marks.of_loss;
    context_.marks[to].of_steep_loss |= marks.of_steep_loss;
    context_.marks[to].near_steep |= marks.near_steep;
  }

  const Graph& graph_;
  PassContext& context_;
  const ValueMap<bool> leads_;
  ValueMap<bool> made_;           // by the forward pass
  ValueMap<bool> before_, near_;  // leads to a steep function: in any way, by elementwise operators alone
};

}  // namespace

llvm::Error MarkLosses(Graph& graph, PassContext& context) {
  Marker(graph, context).Run();
  return llvm::Error::success();
}

}  // namespace act
