#include "compiler/import/training/training_optimizers.h"

namespace act::onnx_import {
namespace {

llvm::Expected<ModelOptimizer> ReadAdam(const onnx::NodeProto&, const NodeAttributes& a) {
  return ModelOptimizer{.name = "onnx-adam",
                        .hyper = {{"beta1", a.Float("alpha", .9)},
                                  {"beta2", a.Float("beta", .999)},
                                  {"eps", a.Float("epsilon", 1e-6)},
                                  {"weight-decay", a.Float("norm_coefficient", 0)},
                                  {"post-decay", a.Float("norm_coefficient_post", 0)}}};
}

llvm::Expected<ModelOptimizer> ReadMomentum(const onnx::NodeProto& node, const NodeAttributes& a) {
  for (const char* name : {"alpha", "beta", "norm_coefficient", "mode"})
    if (!a.Has(name)) return MakeError(PlaceOf(node), "lacks the attribute '" + std::string(name) + "'");
  const std::string mode = a.String("mode", "");
  if (mode != "standard" && mode != "nesterov")
    return MakeError(PlaceOf(node), "mode must be standard or nesterov, it is '" + mode + "'");
  const double beta = a.Float("beta", 1);
  ModelOptimizer optimizer{.name = beta == 1 ? "sgd" : "onnx-momentum",
                           .hyper = {{"momentum", a.Float("alpha", 0)},
                                     {"weight-decay", a.Float("norm_coefficient", 0)},
                                     {"nesterov", mode == "nesterov" ? 1. : 0.}}};
  if (beta != 1) optimizer.hyper["gradient-weight"] = beta;
  return optimizer;
}

llvm::Expected<ModelOptimizer> ReadAdagrad(const onnx::NodeProto&, const NodeAttributes& a) {
  return ModelOptimizer{.name = "adagrad",
                        .hyper = {{"lr-decay", a.Float("decay_factor", 0)},
                                  {"eps", a.Float("epsilon", 1e-6)},
                                  {"weight-decay", a.Float("norm_coefficient", 0)}}};
}

constexpr OptimizerOp kOptimizers[] = {
    {"Adam", 2, ReadAdam}, {"Momentum", 1, ReadMomentum}, {"Adagrad", 1, ReadAdagrad}};

}  // namespace

llvm::Expected<ModelOptimizer> OptimizerOp::Read(const onnx::NodeProto& node) const {
  const NodeAttributes attrs(node);
  llvm::Expected<ModelOptimizer> optimizer = read(node, attrs);
  if (llvm::Error wrong_type = attrs.Check()) {
    llvm::consumeError(optimizer.takeError());
    return wrong_type;
  }
  return optimizer;
}

const OptimizerOp* FindOptimizerOp(const onnx::NodeProto& node) {
  for (const OptimizerOp& row : kOptimizers)
    if (node.domain() == kPreviewTraining && node.op_type() == row.op) return &row;
  return nullptr;
}

}  // namespace act::onnx_import
