// Losses that are operators of ONNX.
#include "compiler/import/importer.h"

namespace act::onnx_import {
namespace {

// scores [N, C, D..], labels [N, D..], class weights [C]? -> loss. Ours has the classes last.
llvm::Error ImportSoftmaxCrossEntropyLoss(NodeContext& c) {
  if (c.WantsOutput(1)) return c.Fail("the output log_prob is not supported");
  const std::string reduction = c.attrs.String("reduction", "mean");
  if (reduction != "mean" && reduction != "sum")
    return c.Fail("reduction " + reduction + " is not supported", "mean and sum are");
  if (c.Type(0).rank() < 2) return c.Fail("scores must be [N, C, ...], they are " + ToString(c.Type(0)));
  ACT_TRY(ValueId scores, c.Value(0));
  ACT_TRY(ValueId label, c.Value(1));
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

}  // namespace

const std::vector<ImportEntry>& LossImports() {
  static const std::vector<ImportEntry> entries = {
      {"SoftmaxCrossEntropyLoss", 2, 3, ImportSoftmaxCrossEntropyLoss},
  };
  return entries;
}

}  // namespace act::onnx_import
