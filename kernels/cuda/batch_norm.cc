// BatchNormStats: sums of parts of the rows to the workspace, then a second kernel that merges them; one
// kernel where there are few rows.
#include <algorithm>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/float_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/batch_norm_parameters.h"
#include "kernels/site/batch_norm_shape.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

BatchNormParameters ParametersOf(const BatchNormShape& s, const ColumnReduction& columns,
                                 const CudaContext& context, const KernelArgs& args) {
  const auto optional = [](std::span<const TensorView> tensors, size_t i) -> float* {
    const TensorView* tensor = OptionalInput(tensors, i);
    return tensor ? tensor->as<float>() : nullptr;
  };
  BatchNormParameters p{.columns = columns,
                        .mean = args.outputs[0].as<float>(),
                        .rstd = args.outputs[1].as<float>(),
                        .largest = optional(args.outputs, 2),
                        .running_mean = optional(args.inputs, 1),
                        .running_var = optional(args.inputs, 2),
                        .epsilon = s.epsilon,
                        .momentum = s.momentum,
                        .population = s.population,
                        .updates_done = s.updates_done,
                        .step = context.step_block.as<StepBlock>()};
  p.columns.x = args.inputs[0].as<void>();
  const int64_t sums = columns.parts > 1 ? int64_t{columns.parts} * s.channels : 0;
  p.sums = args.workspace.data.as<double>();
  p.squares = p.sums + sums;
  p.lows = reinterpret_cast<float*>(p.squares + sums);
  p.highs = p.lows + sums;
  return p;
}

std::unique_ptr<Kernel> BatchNormStats(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape) return nullptr;
  const int64_t channels = shape->channels;
  if (channels == 0) return MakeKernel([](const KernelArgs&) { return std::string(); });
  const int64_t most_parts =
      std::min(CudaTarget().RowSumParts(channels), site.workspace_bytes / (channels * kCudaMomentsBytes));
  const TensorView& x = site.inputs[0];
  const std::string type = FloatType(x.dtype);
  const Strided one, rows{{shape->rows}, {channels}, 0};
  const auto plan = PlanColumns(one, channels, rows, most_parts, IsAlignedForVectors(x));
  if (!plan) return Refuse(why, "2^31 elements");
  const int64_t parts = plan->reduction.parts;
  using BatchNormKernel = OwnKernel<BatchNormParameters>;
  const BatchNormKernel sum(context, "sum_batch", "BatchNormParameters", "batch_norm",
                            "SumBatch" + TemplateArguments(type, plan->column_lanes, plan->vector),
                            kColumnThreads);
  std::optional<BatchNormKernel> merge;
  if (parts > 1)
    merge.emplace(context, "merge_batch", "BatchNormParameters", "batch_norm",
                  "MergeBatch" + TemplateArguments(type), kMergeThreads);
  return MakeKernel(
      [&context, s = *shape, plan = *plan, sum, merge](const KernelArgs& args) -> std::string {
        const BatchNormParameters p = ParametersOf(s, plan.reduction, context, args);
        const Status status = sum.Launch(plan.blocks, p);
        if (!status.empty() || !merge) return status;
        return merge->Launch(DivideUp(s.channels, kMergeColumns), p);
      },
      parts > 1 ? parts * channels * kCudaMomentsBytes : 0);
}

}  // namespace

void RegisterCudaBatchNorm(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("BatchNormStats",
               {"cuda.batch_norm_stats", [&context](const KernelSite& site, std::string* why) {
                  return BatchNormStats(context, site, why);
                }});
}

}  // namespace act::cuda
