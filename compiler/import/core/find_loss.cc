#include "compiler/import/core/find_loss.h"

#include "compiler/import/core/append_loss.h"
#include "compiler/import/core/needed_nodes.h"
#include "runtime/base/error.h"

namespace act::onnx_import {
namespace {

// The flags that add a loss to a model without one, as files of actrun --export-onnx are: those for the shape of the
// first output that may be predictions.
std::string WayToALoss(const Importer& importer, const std::vector<std::string>& outputs) {
  for (const std::string& name : outputs) {
    const TensorType& type = importer.Find(name)->type;
    if (!IsFloat(type.dtype) || type.rank() == 0) continue;
    std::string flags = "--loss=mse", others = "l1, smooth-l1 or bce-with-logits";
    if (type.rank() > 1 && type.dims.back() != Dim(1)) {
      flags = "--loss=cross-entropy";
      if (type.rank() > 2)
        flags = "--loss=token-cross-entropy (classes last) or " + flags + " (classes on axis 1)";
      others = "mse, " + others;
    }
    if (outputs.size() > 1) flags += " with --loss-output=" + name;
    return flags + " adds a loss after '" + name + "'; it may also be " + others;
  }
  return "a loss is computed from a float output: the model has none";
}

}  // namespace

llvm::Expected<FoundLoss> FindLoss(Importer& importer, const std::vector<std::string>& outputs) {
  std::vector<std::string> scalars, all;
  for (const std::string& name : outputs) {
    const TensorType& type = importer.Find(name)->type;
    all.push_back(name + " " + ToString(type));
    if (type.dtype == DType::kFloat32 && type.Elements() == Dim(1)) scalars.push_back(name);
  }
  if (scalars.size() == 1) {
    ACT_TRY(const ValueId loss, importer.Materialize(*importer.Find(scalars[0])));
    if (importer.builder().graph().value(loss).kind != ValueKind::kActivation)
      return MakeError("output '" + scalars[0] + "'", "does not depend on anything that trains");
    ACT_TRY(const ValueId scalar, importer.builder().Reshape(loss, {}, "loss"));
    return FoundLoss{scalar, scalars[0]};
  }
  if (scalars.empty())
    return MakeError("", "no output is a loss (a scalar float); the outputs are: " + Join(all),
                     WayToALoss(importer, outputs));
  return MakeError("", "several outputs may be the loss: " + Join(scalars),
                   "name it with --loss-output=NAME");
}

llvm::Expected<ValueId> AddLoss(Importer& importer, const std::vector<std::string>& outputs,
                                const std::string& kind) {
  if (outputs.size() != 1)
    return MakeError("--loss", "the model has several outputs: " + Join(outputs),
                     "name the predictions with --loss-output=NAME");
  if (importer.Find("label"))
    return MakeError("--loss", "the model already has a value 'label'",
                     "without --loss, its own output is the loss");
  if (importer.Find(outputs[0])->selection)
    return MakeError("--loss", "the number of predictions in '" + outputs[0] + "' depends on data");
  ACT_TRY(const ValueId predictions, importer.Materialize(*importer.Find(outputs[0])));
  ACT_TRY(const AppendedLoss added, AppendLoss(importer.builder(), kind, predictions));
  if (added.logits != kNoValue) {
    importer.logits = added.logits;
    importer.label = added.label;
  }
  if (!added.removed.empty())
    importer.warnings.push_back("--loss=" + kind + " contains a " + added.removed + ", and so does output '" +
                                outputs[0] + "': the loss takes the operand of that " + added.removed);
  return added.loss;
}

}  // namespace act::onnx_import
