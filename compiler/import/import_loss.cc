// Losses that are operators of ONNX.
#include "compiler/import/importer.h"

namespace act::onnx_import {
namespace {

// scores [N, C, D..], labels [N, D..], class weights [C]? -> loss. Ours has the classes last.
llvm::Error CrossEntropy(NodeContext& c, ValueId scores) {
  const std::string reduction = c.attrs.String("reduction", "mean");
  if (reduction != "mean" && reduction != "sum")
    return c.Fail("reduction " + reduction + " is not supported", "mean and sum are");
  if (c.Type(0).rank() < 2) return c.Fail("scores must be [N, C, ...], they are " + ToString(c.Type(0)));
  ACT_TRY(const ValueId label, c.Value(1));
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
  return c.Set(0, y[0]);
}

llvm::Error ImportSoftmaxCrossEntropyLoss(NodeContext& c) {
  if (c.WantsOutput(1)) return c.Fail("the output log_prob is not supported");
  ACT_TRY(const ValueId scores, c.Value(0));
  return CrossEntropy(c, scores);
}

// Behind a log-softmax over the classes, where it is the cross entropy of its scores.
llvm::Error ImportNegativeLogLikelihoodLoss(NodeContext& c) {
  if (c.In(0).scores == kNoValue) return c.Fail("is supported only directly behind a LogSoftmax over axis 1");
  return CrossEntropy(c, c.In(0).scores);
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
