// Losses that are operators of ONNX.
#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

// scores [N, C, D..], labels [N, D..], class weights [C]? -> loss. Ours has the classes last.
llvm::Error CrossEntropy(NodeContext& c, ValueId scores) {
  const std::string reduction = c.attrs.String("reduction", "mean");
  if (reduction != "mean" && reduction != "sum")
    return c.Fail("reduction " + reduction + " is not supported", "mean and sum are");
  if (c.Type(0).rank() < 2) return c.Fail("scores must be [N, C, ...], they are " + ToString(c.Type(0)));
  ACT_TRY(ValueId label, c.Value(1));
  if (c.TypeOf(label).dtype != DType::kInt64) {
    ACT_TRY(label, c.Cast(label, DType::kInt64));
  }
  if (c.Type(0).rank() > 2) {
    ACT_TRY(scores, c.ToChannelsLast(scores));
  }
  Attributes attrs;
  attrs.Set("reduction", reduction);
  if (c.attrs.Has("ignore_index")) attrs.Set("ignore_index", c.attrs.Int("ignore_index"));
  std::vector<ValueId> operands{scores, label};
  if (c.Has(2)) {
    ACT_TRY(const ValueId weight, c.Value(2));
    operands.push_back(weight);
  }
  ACT_TRY(const std::vector<ValueId> y,
          c.builder().Add("SoftmaxCrossEntropy", std::move(operands), attrs, c.name(), 2));
  c.importer.logits = scores;
  c.importer.label = label;
  ACT_CHECK_OK(c.Set(1, Operand{.type = c.Type(0), .kept = y[1]}));  // log_prob
  return c.Set(0, y[0]);
}

// Whether anything that trains has a part in the value.
bool FollowsFromParameter(const Graph& graph, ValueId value) {
  std::set<ValueId> from{value};
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (std::any_of(node->outputs.begin(), node->outputs.end(),
                    [&](ValueId v) { return v != kNoValue && from.count(v) > 0; }))
      from.insert(node->inputs.begin(), node->inputs.end());
  return std::any_of(from.begin(), from.end(), [&](ValueId v) {
    return v != kNoValue && graph.value(v).kind == ValueKind::kParameter;
  });
}

// The fused operator has no gradient for the weights of classes.
llvm::Expected<bool> CanFuse(const NodeContext& c) {
  if (c.attrs.String("reduction", "mean") == "none") return false;
  if (!c.Has(2) || c.importer.own_backward) return true;
  ACT_TRY(const ValueId weight, c.Value(2));
  return !FollowsFromParameter(c.builder().graph(), weight);
}

// x, but `instead` where the condition holds.
llvm::Expected<ValueId> Except(NodeContext& c, ValueId condition, float instead, ValueId x) {
  return c.Emit("Where", {condition, c.builder().Scalar(instead), x});
}

// The element of x at each position, except that `index` gives the position on the axis (extent 1).
llvm::Expected<ValueId> Lookup(NodeContext& c, ValueId x, ValueId index, int64_t axis) {
  TensorType type = c.TypeOf(x);
  type.dims[static_cast<size_t>(axis)] = c.TypeOf(index).dims[static_cast<size_t>(axis)];
  Attributes attrs;
  attrs.Set("axis", axis);
  return c.builder().AddTyped("Gather", {x, index}, type, attrs, c.name());
}

// The reduction of a loss of each sample; "mean" is over all samples.
llvm::Expected<std::string> ReductionOf(const NodeContext& c) {
  std::string reduction = c.attrs.String("reduction", "mean");
  if (reduction != "none" && reduction != "mean" && reduction != "sum")
    return c.Fail("there is no reduction " + reduction);
  return reduction;
}

llvm::Expected<ValueId> Reduced(const NodeContext& c, ValueId loss, const std::string& reduction) {
  if (reduction == "none") return loss;
  std::vector<int64_t> axes(c.TypeOf(loss).dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  return c.Emit(reduction == "mean" ? "ReduceMean" : "ReduceSum", {loss}, Over(axes, false));
}

// A weight for each class.
llvm::Expected<ValueId> ClassWeight(const NodeContext& c) {
  if (c.DimsOf(2) != Dims{c.DimsOf(0)[1]}) return c.Fail("needs a weight for each class");
  return c.Value(2);
}

// The loss of log-probabilities [N, C, D..] of any origin: -w[label] log_prob[label], for each
// sample or reduced. A label outside 0..C-1 that is not ignored is an error of the lookup when it
// runs.
llvm::Error NegativeLogLikelihood(NodeContext& c, ValueId log_prob) {
  ACT_TRY(const std::string reduction, ReductionOf(c));
  const Dims& scores = c.DimsOf(0);
  constexpr int64_t kExact = int64_t{1} << 24;  // labels are compared in f32
  if (scores.size() < 2 || !scores[1].IsFixed() || scores[1].fixed > kExact)
    return c.Fail("scores must be [N, C, ...], they are " + ToString(c.Type(0)));
  Dims one_class = scores, samples = scores;
  one_class[1] = 1;
  samples.erase(samples.begin() + 1);
  if (c.DimsOf(1) != samples)
    return c.Fail("labels " + ToString(c.Type(1)) + " do not fit scores " + ToString(c.Type(0)));

  ACT_TRY(const ValueId given, c.Value(1));
  ACT_TRY(const ValueId label, c.Cast(given, DType::kFloat32));
  ACT_TRY(const ValueId negative, c.Emit("Less", {label, c.builder().Scalar(0)}));
  // A lookup counts negative indices from the end; here they are errors.
  ACT_TRY(ValueId index, Except(c, negative, static_cast<float>(scores[1].fixed), label));
  ValueId ignored = kNoValue;
  if (c.attrs.Has("ignore_index")) {
    const ValueId ignore = c.builder().Scalar(static_cast<float>(c.attrs.Int("ignore_index")));
    ACT_TRY(ignored, c.Emit("Equal", {label, ignore}));
    ACT_TRY(index, Except(c, ignored, 0, index));
  }
  ACT_TRY(index, c.Cast(index, DType::kInt64));
  ACT_TRY(const ValueId class_index, c.Reshape(index, one_class));
  ACT_TRY(ValueId loss, Lookup(c, log_prob, class_index, 1));
  ACT_TRY(loss, c.Reshape(loss, samples));
  ACT_TRY(loss, c.Emit("Neg", {loss}));

  ValueId weight = kNoValue;  // of each sample; none: all 1
  if (c.Has(2)) {
    ACT_TRY(const ValueId of_class, ClassWeight(c));
    ACT_TRY(const ValueId flat, c.Reshape(index, {c.Type(1).Elements()}));
    ACT_TRY(weight, Lookup(c, of_class, flat, 0));
    ACT_TRY(weight, c.Reshape(weight, samples));
  }
  if (ignored != kNoValue) {
    if (weight == kNoValue) {
      ACT_TRY(weight, c.builder().Expand(c.builder().Scalar(1), samples, c.name()));
    }
    ACT_TRY(weight, Except(c, ignored, 0, weight));
  }
  if (weight != kNoValue) {
    ACT_TRY(loss, c.Emit("Mul", {loss, weight}));
  }
  if (reduction != "mean" || weight == kNoValue) return c.Return(Reduced(c, loss, reduction));
  ACT_TRY(const ValueId sum, Reduced(c, loss, "sum"));
  ACT_TRY(const ValueId weights, Reduced(c, weight, "sum"));
  return c.Return(c.Emit("Div", {sum, weights}));
}

llvm::Expected<ValueId> LogSoftmax(NodeContext& c, ValueId scores) {
  ACT_TRY(const ValueId largest, c.Emit("ReduceMax", {scores}, Over({1}, true)));
  ACT_TRY(const ValueId shifted, c.Emit("Sub", {scores, largest}));
  ACT_TRY(const ValueId power, c.Emit("Exp", {shifted}));
  ACT_TRY(const ValueId sum, c.Emit("ReduceSum", {power}, Over({1}, true)));
  ACT_TRY(const ValueId log_sum, c.Emit("Log", {sum}));
  return c.Emit("Sub", {shifted, log_sum});
}

// Labels that are a share of each class, [N, C, D..]: -sum over C of w share log_prob, for each sample or reduced. Both
// exporters of PyTorch write its cross entropy of probabilities so, although ONNX knows classes alone. As in PyTorch, a
// mean is over the samples, whatever the weights, and no class is ignored.
llvm::Error CrossEntropyOfShares(NodeContext& c, ValueId log_prob) {
  ACT_TRY(const std::string reduction, ReductionOf(c));
  const Dims& scores = c.DimsOf(0);
  ACT_TRY(const ValueId share, c.Value(1));
  ACT_TRY(ValueId loss, c.Emit("Mul", {log_prob, share}));
  if (c.Has(2)) {
    Dims along(scores.size(), Dim(1));
    along[1] = scores[1];
    ACT_TRY(ValueId weight, ClassWeight(c));
    ACT_TRY(weight, c.Reshape(weight, along));
    ACT_TRY(loss, c.Emit("Mul", {loss, weight}));
  }
  ACT_TRY(loss, c.Emit("ReduceSum", {loss}, Over({1}, false)));
  ACT_TRY(loss, c.Emit("Neg", {loss}));
  return c.Return(Reduced(c, loss, reduction));
}

// One fused operator where only the reduced loss is wanted, else its parts.
llvm::Error ImportSoftmaxCrossEntropyLoss(NodeContext& c) {
  ACT_TRY(const ValueId scores, c.Value(0));
  if (c.Type(0).rank() >= 2 && c.Type(1) == c.Type(0)) {
    ACT_TRY(const ValueId log_prob, LogSoftmax(c, scores));
    ACT_CHECK_OK(CrossEntropyOfShares(c, log_prob));
    return c.Set(1, log_prob);
  }
  // The log-probabilities of a training graph are there for the gradient.
  ACT_TRY(const bool can_fuse, CanFuse(c));
  if (can_fuse && (!c.WantsOutput(1) || c.importer.own_backward)) return CrossEntropy(c, scores);
  if (c.Type(0).rank() < 2) return c.Fail("scores must be [N, C, ...], they are " + ToString(c.Type(0)));
  ACT_TRY(const ValueId log_prob, LogSoftmax(c, scores));
  ACT_CHECK_OK(NegativeLogLikelihood(c, log_prob));
  return c.Set(1, log_prob);
}

// After a log-softmax over the classes this is the cross entropy of the log-softmax's operand.
llvm::Error ImportNegativeLogLikelihoodLoss(NodeContext& c) {
  ACT_TRY(const bool can_fuse, CanFuse(c));
  if (can_fuse && c.In(0).scores != kNoValue) return CrossEntropy(c, c.In(0).scores);
  ACT_TRY(const ValueId log_prob, c.Value(0));
  return NegativeLogLikelihood(c, log_prob);
}

}  // namespace

const std::vector<ImportEntry>& LossImports() {
  static const std::vector<ImportEntry> entries = {
      {"SoftmaxCrossEntropyLoss", 2, 3, ImportSoftmaxCrossEntropyLoss},
      {"NegativeLogLikelihoodLoss", 2, 3, ImportNegativeLogLikelihoodLoss},
  };
  return entries;
}

}  // namespace act::onnx_import
