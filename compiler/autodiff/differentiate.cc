#include "compiler/autodiff/differentiate.h"

#include <algorithm>

#include "compiler/ir/uses.h"
#include "compiler/ops/op_table.h"
#include "compiler/ops/row_updates.h"
#include "runtime/base/error.h"

namespace act {
namespace {

class Differentiator {
 public:
  Differentiator(Graph& graph, const std::vector<ValueId>& trainable, const UpdateOptions& options)
      : graph_(graph),
        builder_(graph),
        updates_(builder_, options),
        trainable_(trainable),
        uses_(graph),
        wanted_(graph),
        finite_(graph, true),
        grad_(graph, kNoValue),
        first_read_by_(graph.nodes.size()) {
    FindPaths();
    FindSteepFunctions();
  }

  llvm::Expected<Gradients> Run(ValueId loss) {
    if (graph_.value(loss).type != TensorType{DType::kFloat32, {}})
      return MakeError("", "the loss must be a scalar f32, it is " + ToString(graph_.value(loss).type));
    if (!wanted_[loss])
      return MakeError("", "no trainable parameter has a path to the loss",
                       "check --freeze and --loss-output; parameters are float initializers of the model");
    builder_.SetPhase(Phase::kBackward);
    const size_t forward_nodes = graph_.nodes.size();
    ACT_CHECK_OK(Accumulate(loss, builder_.Scalar(1), "loss"));
    for (size_t i = forward_nodes; i-- > 0;) {
      ACT_CHECK_OK(DifferentiateNode(i));
      ACT_CHECK_OK(UpdateParametersFirstReadBy(i));
    }
    ACT_CHECK_OK(updates_.Finish());
    return std::move(result_);
  }

 private:
  void FindPaths() {
    for (ValueId v : trainable_) {
      wanted_[v] = true;
      if (!uses_.Readers(v).empty()) first_read_by_[uses_.Readers(v).front()].push_back(v);
    }
    for (const Node& node : graph_.nodes) {
      const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [this](ValueId v) { return v != kNoValue && wanted_[v]; });
      if (!any || !FindOp(node.op)->grad) continue;
      for (ValueId v : node.outputs) wanted_[v] = graph_.value(v).type.dtype == DType::kFloat32;
    }
  }

  // A gradient may be infinite where a later function has an unbounded slope: of sqrt(relu(x)) at x = 0.
  void FindSteepFunctions() {
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const OpDef& op = OpOf(*node);
      const bool steep =
          op.steep_operand >= 0 && !(op.slope_is_bounded && op.slope_is_bounded(graph_, *node));
      const bool finite = std::all_of(node->outputs.begin(), node->outputs.end(),
                                      [this](ValueId v) { return v == kNoValue || finite_[v]; });
      for (size_t i = 0; i < node->inputs.size(); ++i) {
        const bool is_steep = steep && static_cast<int>(i) == op.steep_operand;
        if (node->inputs[i] != kNoValue && (!finite || is_steep)) finite_[node->inputs[i]] = false;
      }
    }
  }

  llvm::Error DifferentiateNode(size_t index) {
    const Node node = graph_.nodes[index];
    const OpDef* def = FindOp(node.op);
    std::vector<ValueId> output_grads;
    bool any = false;
    for (ValueId v : node.outputs) {
      output_grads.push_back(grad_[v]);
      any |= output_grads.back() != kNoValue;
    }
    std::vector<bool> wanted;
    bool anything_wanted = false;
    for (ValueId v : node.inputs) {
      wanted.push_back(v != kNoValue && wanted_[v]);
      anything_wanted |= wanted.back();
    }
    if (!any || !anything_wanted || !def->grad) return llvm::Error::success();
    const bool finite = std::all_of(node.outputs.begin(), node.outputs.end(),
                                    [this](ValueId v) { return v == kNoValue || finite_[v]; });
    GradContext context(builder_, node, std::move(output_grads), std::move(wanted), finite, result_.saved);
    def->grad(context);
    ACT_CHECK_OK(context.TakeError());
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (context.grads()[i] != kNoValue)
        ACT_CHECK_OK(Accumulate(node.inputs[i], context.grads()[i], node.name));
    return llvm::Error::success();
  }

  llvm::Error Accumulate(ValueId value, ValueId grad, const std::string& from) {
    ValueId& sum = grad_[value];
    result_.of_values.emplace_back(value, grad);
    if (sum == kNoValue || AddRowsTo(value, sum, grad)) {
      sum = grad;
      return llvm::Error::success();
    }
    ACT_TRY(const ValueId total, builder_.Add1("Add", {sum, grad}, {}, from + ".grad.sum"));
    sum = total;
    result_.of_values.emplace_back(value, total);
    return llvm::Error::success();
  }

  // Of a table that something else reads, too (the last product, if embeddings are tied): the rows of a lookup's
  // gradient are added to the sum so far and not to zeros, so that one tensor of the table's size exists and not two.
  // Only of parameters, whose gradients are float32 in any case.
  bool AddRowsTo(ValueId value, ValueId sum, ValueId grad) {
    Node& last = graph_.nodes.back();  // an update has no result
    if (graph_.value(value).kind != ValueKind::kParameter || !AddsRowsIntoZeros(last) ||
        last.outputs[0] != grad)
      return false;
    AddRowsInto(last, sum);
    return true;
  }

  // The gradients of the parameters that node `index` is the first to read are complete once that
  // node's rule was applied.
  llvm::Error UpdateParametersFirstReadBy(size_t index) {
    for (const ValueId p : first_read_by_[index])
      if (grad_[p] != kNoValue) ACT_CHECK_OK(updates_.Add(p, grad_[p]));
    return llvm::Error::success();
  }

  Graph& graph_;
  GraphBuilder builder_;
  UpdateAppender updates_;
  const std::vector<ValueId>& trainable_;
  const Uses uses_;         // of the forward pass
  ValueMap<bool> wanted_;   // forward values that depend on a trainable parameter
  ValueMap<bool> finite_;   // forward values whose gradients are finite where the forward pass is
  ValueMap<ValueId> grad_;  // of forward values only
  // For each forward node the parameters that no node before it reads.
  std::vector<std::vector<ValueId>> first_read_by_;
  Gradients result_;
};

}  // namespace

llvm::Expected<Gradients> Differentiate(Graph& graph, ValueId loss, const std::vector<ValueId>& trainable,
                                        const UpdateOptions& options) {
  return Differentiator(graph, trainable, options).Run(loss);
}

}  // namespace act
