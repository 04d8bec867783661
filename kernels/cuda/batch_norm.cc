// BatchNormStats and BatchNormMoments: sums of parts of the rows to the workspace, then a second kernel that
// merges them; one kernel where there are few rows.
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

using BatchNormKernel = OwnKernel<BatchNormParameters>;

// Where the statistics go that BatchNormStats and BatchNormFromMoments store.
BatchNormParameters ParametersOf(const BatchNormResults& r, const CudaContext& context,
                                 const KernelArgs& args) {
  const auto optional = [](std::span<const TensorView> tensors, size_t i) -> float* {
    const TensorView* tensor = OptionalInput(tensors, i);
    return tensor ? tensor->as<float>() : nullptr;
  };
  return {.columns = {},
          .mean = args.outputs[0].as<float>(),
          .rstd = args.outputs[1].as<float>(),
          .largest = optional(args.outputs, 2),
          .running_mean = optional(args.inputs, 1),
          .running_var = optional(args.inputs, 2),
          .epsilon = r.epsilon,
          .momentum = r.momentum,
          .population = r.population,
          .updates_done = r.updates_done,
          .step = context.step_block.as<StepBlock>()};
}

// Sums columns of x. results(args) says where their moments go.
template <class Results>
std::unique_ptr<Kernel> OfEachChannel(const CudaContext& context, const KernelSite& site, std::string* why,
                                      const BatchNormShape& shape, Results results) {
  const int64_t channels = shape.channels;
  if (channels == 0) return MakeKernel([](const KernelArgs&) { return std::string(); });
  const int64_t most_parts =
      std::min(CudaTarget().RowSumParts(channels), site.workspace_bytes / (channels * kCudaMomentsBytes));
  const TensorView& x = site.inputs[0];
  const std::string type = FloatType(x.dtype);
  const Strided one, rows{{shape.rows}, {channels}, 0};
  const auto plan = PlanColumns(one, channels, rows, most_parts, IsAlignedForVectors(x));
  if (!plan) return Refuse(why, "2^31 elements");
  const int64_t parts = plan->reduction.parts;
  const BatchNormKernel sum(context, "sum_batch", "BatchNormParameters", "batch_norm",
                            "SumBatch" + TemplateArguments(type, plan->column_lanes, plan->vector),
                            kColumnThreads);
  std::optional<BatchNormKernel> merge;
  if (parts > 1)
    merge.emplace(context, "merge_batch", "BatchNormParameters", "batch_norm",
                  "MergeBatch" + TemplateArguments(type), kMergeThreads);
  return MakeKernel(
      [channels, plan = *plan, sum, merge, results](const KernelArgs& args) -> std::string {
        BatchNormParameters p = results(args);
        p.columns = plan.reduction;
        p.columns.x = args.inputs[0].as<void>();
        const int64_t sums = plan.reduction.parts > 1 ? int64_t{plan.reduction.parts} * channels : 0;
        p.sums = args.workspace.data.as<double>();
        p.squares = p.sums + sums;
        p.lows = reinterpret_cast<float*>(p.squares + sums);
        p.highs = p.lows + sums;
        const Status status = sum.Launch(plan.blocks, p);
        if (!status.empty() || !merge) return status;
        return merge->Launch(DivideUp(channels, kMergeColumns), p);
      },
      parts > 1 ? parts * channels * kCudaMomentsBytes : 0);
}

std::unique_ptr<Kernel> BatchNormStats(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape) return nullptr;
  const auto results = BatchNormResultsOf(site, shape->channels, why);
  if (!results) return nullptr;
  return OfEachChannel(context, site, why, *shape, [&context, r = *results](const KernelArgs& args) {
    return ParametersOf(r, context, args);
  });
}

std::unique_ptr<Kernel> BatchNormMoments(const CudaContext& context, const KernelSite& site,
                                         std::string* why) {
  const auto shape = BatchNormShapeOf(site, why);
  if (!shape || !HoldsMoments(site.outputs[0], shape->channels, why)) return nullptr;
  return OfEachChannel(context, site, why, *shape, [](const KernelArgs& args) {
    return BatchNormParameters{
        .columns = {}, .moments = args.outputs[0].as<double>(), .goes_on = args.goes_on};
  });
}

std::unique_ptr<Kernel> BatchNormFromMoments(const CudaContext& context, const KernelSite& site,
                                             std::string* why) {
  const int64_t channels = site.inputs[0].dims.empty() ? 0 : site.inputs[0].dims[0];
  if (!HoldsMoments(site.inputs[0], channels, why)) return nullptr;
  const auto results = BatchNormResultsOf(site, channels, why);
  if (!results) return nullptr;
  const BatchNormKernel finish(context, "finish_moments", "BatchNormParameters", "batch_norm",
                               "FinishMoments");
  return MakeKernel([&context, r = *results, finish](const KernelArgs& args) -> std::string {
    BatchNormParameters p = ParametersOf(r, context, args);
    p.moments = args.inputs[0].as<double>();
    p.columns.length = static_cast<int32_t>(r.channels);
    return finish.LaunchItems(r.channels, p);
  });
}

}  // namespace

void RegisterCudaBatchNorm(KernelRegistry& registry, const CudaContext& context) {
  const auto add = [&](const char* op, const char* name, auto create) {
    registry.Add(op, {name, [&context, create](const KernelSite& site, std::string* why) {
                        return create(context, site, why);
                      }});
  };
  add("BatchNormStats", "cuda.batch_norm_stats", BatchNormStats);
  add("BatchNormMoments", "cuda.batch_norm_moments", BatchNormMoments);
  add("BatchNormFromMoments", "cuda.batch_norm_from_moments", BatchNormFromMoments);
}

}  // namespace act::cuda
