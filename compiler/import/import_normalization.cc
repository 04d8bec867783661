// Normalization layers. BatchNormalization is one operator of ours; the others are reductions and elementwise
// operators.
#include "compiler/import/importer.h"

namespace act::onnx_import {
namespace {

// Every form is one of training: with batch statistics, unless --freeze-bn keeps the stored ones. The dynamo
// exporter writes the inference form (one output) even for a model in training mode, so the form says
// nothing. The outputs for running statistics (2 since opset 14, 4 before) are the update that our operator
// makes in place.
llvm::Error ImportBatchNormalization(NodeContext& c) {
  for (size_t i : {size_t{1}, size_t{2}, size_t{3}, size_t{4}})
    if (c.Type(i).rank() != 1) return c.Fail("operand " + std::to_string(i) + " must have one axis");
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 5; ++i) {
    ACT_TRY(const ValueId value, c.Value(i));
    operands.push_back(value);
  }
  for (size_t i : {size_t{3}, size_t{4}}) {
    if (c.builder().graph().value(operands[i]).kind == ValueKind::kActivation)
      return c.Fail("running statistics must be initializers");
  }
  const bool spatial = c.Type(0).rank() > 2;
  if (spatial) {
    ACT_TRY(operands[0], c.ToChannelsLast(operands[0]));
  }
  Attributes attrs;
  attrs.Set("epsilon", c.attrs.Float("epsilon", 1e-5));
  // ONNX: running = m running + (1 - m) new; PyTorch: (1 - m) running + m new. To 9 digits: 1 - 0.9 is meant
  // to be 0.1.
  const double momentum = 1 - c.attrs.Float("momentum", .9);
  attrs.Set("momentum", static_cast<double>(static_cast<int64_t>(momentum * 1e9 + .5)) / 1e9);
  // TorchScript's exporter traces a model in training mode by running it once, and so writes running
  // statistics that hold one update by the example inputs. That run counts as the first step's: behind step k
  // they hold k updates, as PyTorch's do. Only this form has outputs for the statistics.
  if (c.WantsOutput(1)) attrs.Set("updates_done", int64_t{1});
  attrs.Set("frozen", int64_t{c.importer.freeze_bn});
  llvm::Expected<ValueId> y = c.Emit("BatchNorm", std::move(operands), attrs);
  if (y && spatial) y = c.ToChannelsFirst(*y);
  return c.Return(std::move(y));
}

}  // namespace

const std::vector<ImportEntry>& NormalizationImports() {
  static const std::vector<ImportEntry> entries = {
      {"BatchNormalization", 5, 5, ImportBatchNormalization},
  };
  return entries;
}

}  // namespace act::onnx_import
