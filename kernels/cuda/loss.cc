// SoftmaxCrossEntropy, its gradient, its denominator, and CountCorrect: a team of threads for each row. Sums over rows
// are made by a fixed number of blocks, then by a second kernel; by one kernel where one block has all
// rows.
#include <algorithm>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/float_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/row_plan.h"
#include "kernels/cuda/source/divisor.h"
#include "kernels/cuda/source/loss_parameters.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

using LossKernel = OwnKernel<LossParameters>;

// `function` of device code, for a row shape.
LossKernel RowKernel(const CudaContext& context, const std::string& name, const std::string& function,
                     const RowPlan& plan, const std::string& more_arguments = "") {
  return {context,
          name,
          "LossParameters",
          "loss",
          function + TemplateArguments("act::cuda::" + plan.shape + more_arguments),
          plan.threads};
}
LossKernel LabelKernel(const CudaContext& context, const std::string& name, const std::string& function) {
  return {context, name, "LossParameters", "loss", function, kLossThreads};
}

RowPlan PlanLogits(const LossShape& s, const TensorView& logits, int passes) {
  return PlanRows(s.classes, passes, 1, IsAlignedForVectors(logits));
}

// The part of the parameters that all kernels have.
LossParameters ParametersOf(const CudaContext& context, const KernelSite& site, const LossShape& s) {
  const std::string place =
      "node '" + site.node->name + "' (" + site.node->op + "), classes 0.." + std::to_string(s.classes - 1);
  return {.rows = s.rows,
          .ignore_index = s.ignore_index.value_or(0),
          .classes = static_cast<int32_t>(s.classes),
          .has_ignore_index = s.ignore_index.has_value(),
          .mean = s.mean,
          .fault_site = context.fault_sites.Add(place)};
}

static_assert(sizeof(LossPart) == kCudaLossBytes);
int64_t PartBytes(int64_t parts) { return parts > 1 ? parts * kCudaLossBytes : 0; }

// As many parts as there are blocks of rows, within the limit and the workspace.
int32_t Parts(int64_t blocks, int64_t workspace_bytes) {
  const int64_t most = std::min(CudaTarget().RowSumParts(1), workspace_bytes / kCudaLossBytes);
  return static_cast<int32_t>(std::clamp<int64_t>(blocks, 1, std::max<int64_t>(most, 1)));
}

// A kernel whose result is a sum over all rows. `fill` sets the operands.
template <class Fill>
std::unique_ptr<Kernel> SumOverRows(const CudaContext& context, const KernelSite& site, const RowPlan& plan,
                                    const LossKernel& rows, LossParameters shape, Fill fill) {
  shape.part_count = Parts(DivideUp(shape.rows, plan.teams), site.workspace_bytes);
  std::optional<LossKernel> finish;
  if (shape.part_count > 1) finish = LabelKernel(context, "finish_loss", "FinishLoss");
  return MakeKernel(
      [&context, shape, rows, finish, fill](const KernelArgs& args) -> std::string {
        LossParameters p = shape;
        p.logits = args.inputs[0].as<float>();
        p.label = args.inputs[1].as<int64_t>();
        p.loss = args.outputs[0].as<float>();
        p.parts = args.workspace.data.as<LossPart>();
        p.faults = context.fault_record.as<FaultRecord>();
        fill(p, args);
        const Status status = rows.Launch(p.part_count, p);
        return status.empty() && finish ? finish->Launch(1, p) : status;
      },
      PartBytes(shape.part_count));
}

std::unique_ptr<Kernel> SoftmaxCrossEntropy(const CudaContext& context, const KernelSite& site,
                                            std::string* why) {
  const auto shape = CrossEntropyShapeOf(site, why);
  if (!shape) return nullptr;
  if (shape->classes >= kMaxCount) return Refuse(why, "2^31 classes");
  const RowPlan plan = PlanLogits(*shape, site.inputs[0], 2);
  return SumOverRows(context, site, plan,
                     RowKernel(context, "softmax_cross_entropy", "SoftmaxCrossEntropy", plan),
                     ParametersOf(context, site, *shape), [](LossParameters& p, const KernelArgs& args) {
                       p.class_weight = OptionalFloats(args, 2);
                       p.denominator = OptionalFloats(args, 3);
                       p.prob = args.outputs[1].as<float>();
                     });
}

std::unique_ptr<Kernel> CountCorrect(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto shape = CountCorrectShapeOf(site, why);
  if (!shape) return nullptr;
  if (shape->classes >= kMaxCount) return Refuse(why, "2^31 classes");
  const RowPlan plan = PlanLogits(*shape, site.inputs[0], 1);
  LossParameters p = ParametersOf(context, site, *shape);
  p.mean = false;
  return SumOverRows(context, site, plan, RowKernel(context, "count_correct", "CountCorrect", plan), p,
                     [](LossParameters&, const KernelArgs&) {});
}

std::unique_ptr<Kernel> SoftmaxCrossEntropyGrad(const CudaContext& context, const KernelSite& site,
                                                std::string* why) {
  const auto shape = CrossEntropyGradShapeOf(site, why);
  if (!shape) return nullptr;
  if (shape->classes >= kMaxCount) return Refuse(why, "2^31 classes");
  const RowPlan plan = PlanLogits(*shape, site.inputs[1], 1);
  const LossKernel rows = RowKernel(context, "softmax_cross_entropy_grad", "SoftmaxCrossEntropyGrad", plan,
                                    std::string(", ") + FloatType(site.outputs[0].dtype));
  LossParameters shared = ParametersOf(context, site, *shape);
  // 0: each block sums the weights of all labels.
  shared.part_count = 0;
  std::optional<LossKernel> weights;
  const bool sums_weights = shape->mean && !OptionalInput(site.inputs, 4);
  if (sums_weights && shape->rows > kFewLabels && site.workspace_bytes >= PartBytes(2)) {
    shared.part_count = Parts(DivideUp(shape->rows, kLossThreads), site.workspace_bytes);
    weights = LabelKernel(context, "sum_label_weights", "SumLabelWeights");
  }
  return MakeKernel(
      [&context, shared, plan, rows, weights](const KernelArgs& args) -> std::string {
        LossParameters p = shared;
        p.dloss = args.inputs[0].as<float>();
        p.logits = args.inputs[1].as<float>();
        p.label = args.inputs[2].as<int64_t>();
        p.class_weight = OptionalFloats(args, 3);
        p.denominator = OptionalFloats(args, 4);
        p.dlogits = args.outputs[0].as<void>();
        p.parts = args.workspace.data.as<LossPart>();
        p.faults = context.fault_record.as<FaultRecord>();
        if (weights)
          if (Status status = weights->Launch(p.part_count, p); !status.empty()) return status;
        return rows.Launch(DivideUp(p.rows, plan.teams), p);
      },
      PartBytes(shared.part_count));
}

std::unique_ptr<Kernel> LossDenominator(const CudaContext& context, const KernelSite& site,
                                        std::string* why) {
  const auto shape = LossDenominatorShapeOf(site, why);
  if (!shape) return nullptr;
  if (shape->classes >= kMaxCount) return Refuse(why, "2^31 classes");
  LossParameters shared = ParametersOf(context, site, *shape);
  if (shape->rows > kFewLabels)
    shared.part_count = Parts(DivideUp(shape->rows, kLossThreads), site.workspace_bytes);
  std::optional<LossKernel> weights;
  if (shared.part_count > 1) weights = LabelKernel(context, "sum_label_weights", "SumLabelWeights");
  const LossKernel sum = LabelKernel(context, "loss_denominator", "LossDenominator");
  return MakeKernel(
      [&context, shared, weights, sum](const KernelArgs& args) -> std::string {
        LossParameters p = shared;
        p.label = args.inputs[0].as<int64_t>();
        p.class_weight = OptionalFloats(args, 1);
        p.loss = args.outputs[0].as<float>();
        p.parts = args.workspace.data.as<LossPart>();
        p.faults = context.fault_record.as<FaultRecord>();
        if (weights)
          if (Status status = weights->Launch(p.part_count, p); !status.empty()) return status;
        return sum.Launch(1, p);
      },
      PartBytes(shared.part_count));
}

}  // namespace

void RegisterCudaLoss(KernelRegistry& registry, const CudaContext& context) {
  const auto add = [&](const std::string& op, const std::string& name, auto create) {
    registry.Add(op, {name, [&context, create](const KernelSite& site, std::string* why) {
                        return create(context, site, why);
                      }});
  };
  add("SoftmaxCrossEntropy", "cuda.softmax_cross_entropy", SoftmaxCrossEntropy);
  add("SoftmaxCrossEntropyGrad", "cuda.softmax_cross_entropy_grad", SoftmaxCrossEntropyGrad);
  add(kLossDenominator, "cuda.loss_denominator", LossDenominator);
  add("CountCorrect", "cuda.count_correct", CountCorrect);
}

}  // namespace act::cuda
