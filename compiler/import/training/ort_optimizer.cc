#include "compiler/import/training/ort_optimizer.h"

#include "compiler/import/core/importer.h"
#include "compiler/import/file/model_file.h"

namespace act::onnx_import {
namespace {

// Ours are adamw (adam_mode 0: PyTorch's formula) and ort-adamw (1: epsilon outside the bias
// correction, the decay after the step).
llvm::Error ReadAdamW(const onnx::NodeProto& node, const NodeAttributes& attrs, ModelOptimizer& optimizer) {
  const int64_t mode = attrs.Int("adam_mode", 0), correct_bias = attrs.Int("correct_bias", 1);
  optimizer.hyper = {{"beta1", attrs.Float("alpha", .9)},
                     {"beta2", attrs.Float("beta", .999)},
                     {"eps", attrs.Float("epsilon", 1e-8)},
                     {"weight-decay", attrs.Float("weight_decay", .01)}};
  ACT_CHECK_OK(attrs.Check());
  if (mode != 0 && mode != 1) return MakeError(PlaceOf(node), "adam_mode must be 0 or 1");
  if (correct_bias == 0)
    return MakeError(PlaceOf(node), "correct_bias 0 is not supported",
                     "choose another with --optimizer=adamw");
  optimizer.name = mode == 0 ? "adamw" : "ort-adamw";
  return llvm::Error::success();
}

llvm::Expected<ModelOptimizer> Read(const ModelFile& file) {
  ModelOptimizer optimizer;
  for (const onnx::NodeProto& node : file.proto->graph().node()) {
    const NodeAttributes attrs(node);
    const std::string op = node.domain() == kMicrosoft ? node.op_type() : "";
    if (op == "InplaceClipGradNorm") {
      optimizer.clip_norm = attrs.Float("max_norm", 1);
      ACT_CHECK_OK(attrs.Check());
      if (!(optimizer.clip_norm > 0)) return MakeError(PlaceOf(node), "max_norm must be above 0");
    } else if ((op == "AdamWOptimizer" || op == "SGDOptimizerV2") && optimizer.name.empty()) {
      if (op == "AdamWOptimizer") {
        ACT_CHECK_OK(ReadAdamW(node, attrs, optimizer));
      } else {
        optimizer.name = "plain-sgd";
      }
    } else {
      return MakeError(PlaceOf(node), "is not supported in an optimizer model",
                       "choose an optimizer with --optimizer");
    }
  }
  if (optimizer.name.empty()) return MakeError("", "holds no optimizer");
  return optimizer;
}

}  // namespace

llvm::Expected<ModelOptimizer> ReadOrtOptimizer(const std::string& path) {
  ACT_TRY(const ModelFile file, ReadModel(path));
  llvm::Expected<ModelOptimizer> optimizer = Read(file);
  if (!optimizer) return WithPlace(optimizer.takeError(), path);
  return optimizer;
}

}  // namespace act::onnx_import
