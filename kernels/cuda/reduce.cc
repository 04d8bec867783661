// ReduceSum, ReduceMean and ReduceMax. Where few results have many elements each, blocks reduce parts of
// them to the workspace, and a second kernel merges the parts.
#include <algorithm>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/kernel_text.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/reduce_parameters.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/reduce_shape.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

enum class Op { kSum, kMean, kMax };

struct Reduction {
  std::string op;  // "SumOp"
  double divisor = 1;
  Strided kept, reduced;  // merged
  int64_t results = 0;
  int64_t most_parts = 1;  // for which the workspace suffices
};

int64_t WorkspaceOf(const Reduction& r, int64_t parts) {
  return parts > 1 ? parts * ReducePartBytes(r.results) : 0;
}

ReduceResult ResultOf(const Reduction& r, const KernelArgs& args) {
  return {args.outputs[0].as<float>(), args.workspace.data.as<double>(), static_cast<uint32_t>(r.results),
          r.divisor};
}

const CompiledKernel* MergeKernel(const CudaContext& context, const Reduction& r) {
  return context.cache.Request(
      TextOf({"act_merge_reductions", "reduce", kMergeThreads, "MergePartsParameters",
              "MergeParts" + TemplateArguments(r.op) + "(p)"}));
}

Status Merge(const CudaContext& context, const CompiledKernel& kernel, uint32_t parts,
             const ReduceResult& result) {
  return Launch(context, kernel, DivideUp(result.columns, kMergeColumns), kMergeThreads,
                MergePartsParameters{parts, result});
}

// The last axis of x is kept.
std::unique_ptr<Kernel> LeadingAxes(const CudaContext& context, const Reduction& r, std::string* why) {
  const Rows kept = RowsOf(r.kept);
  const auto plan = PlanColumns(kept.outer, kept.length, r.reduced, r.most_parts);
  if (!plan) return Refuse(why, "an axis is too long, or there are too many");
  const CompiledKernel* reduce = context.cache.Request(
      TextOf({"act_reduce_columns", "reduce", kColumnThreads, "ReduceColumnsParameters",
              "ReduceColumns" + TemplateArguments(r.op, plan->column_lanes, plan->vector) + "(p)"}));
  const CompiledKernel* merge = plan->reduction.parts > 1 ? MergeKernel(context, r) : nullptr;
  return MakeKernel(
      [&context, r, plan = *plan, reduce, merge](const KernelArgs& args) -> std::string {
        ReduceColumnsParameters p{plan.reduction, ResultOf(r, args)};
        p.columns.x = args.inputs[0].as<float>();
        const Status status = Launch(context, *reduce, plan.blocks, kColumnThreads, p);
        return status.empty() && merge ? Merge(context, *merge, plan.reduction.parts, p.result) : status;
      },
      WorkspaceOf(r, plan->reduction.parts));
}

// The last axis of x is reduced, or there is one result.
std::unique_ptr<Kernel> LastAxis(const CudaContext& context, const Reduction& r, std::string* why) {
  const auto kept = AxesOf(r.kept), reduced = AxesOf(r.reduced);
  if (!kept || !reduced) return Refuse(why, "an axis is too long, or there are too many");
  constexpr int64_t kWarp = 32, kThreadElements = 64;
  const bool vectors = HoldsVectors(r.reduced) && std::all_of(r.kept.strides.begin(), r.kept.strides.end(),
                                                              [](int64_t s) { return s % 4 == 0; });
  const int64_t count = r.reduced.Elements(), vector = vectors ? 4 : 1;
  const int64_t team = count > kWarp * kThreadElements
                           ? kRowThreads
                           : std::min(PowerOfTwoAbove(DivideUp(std::max<int64_t>(count, 1), vector)), kWarp);
  // A part has at least so many elements for each thread: fewer are not worth a second launch.
  const int64_t wanted = std::min(r.most_parts, DivideUp(count, kRowThreads * kThreadElements));
  const int64_t part_count =
      std::max(DivideUp(count, std::max<int64_t>(wanted, 1) * vector) * vector, vector);
  const int64_t parts = std::max<int64_t>(DivideUp(count, part_count), 1);
  const int64_t blocks = DivideUp(r.results * parts, kRowThreads / team);
  if (r.results * parts > kMostPositions) return Refuse(why, "too many results");
  ReduceRowsParameters p{.x = nullptr,
                         .kept = *kept,
                         .reduced = *reduced,
                         .count = static_cast<uint32_t>(count),
                         .parts = static_cast<uint32_t>(parts),
                         .part_count = static_cast<uint32_t>(part_count),
                         .result = {}};
  const CompiledKernel* reduce =
      context.cache.Request(TextOf({"act_reduce_rows", "reduce", kRowThreads, "ReduceRowsParameters",
                                    "ReduceRows" + TemplateArguments(r.op, team, vector) + "(p)"}));
  const CompiledKernel* merge = parts > 1 ? MergeKernel(context, r) : nullptr;
  return MakeKernel(
      [&context, r, p, blocks, reduce, merge](const KernelArgs& args) mutable -> std::string {
        p.x = args.inputs[0].as<float>();
        p.result = ResultOf(r, args);
        const Status status = Launch(context, *reduce, blocks, kRowThreads, p);
        return status.empty() && merge ? Merge(context, *merge, p.parts, p.result) : status;
      },
      WorkspaceOf(r, parts));
}

std::unique_ptr<Kernel> Reduce(const CudaContext& context, Op op, const KernelSite& site, std::string* why) {
  if (site.inputs[0].dtype != DType::kFloat32) return Refuse(why, "float32 only");
  const auto shape = ReduceShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  if (site.outputs[0].elements == 0) return MakeKernel([](const KernelArgs&) { return std::string(); });
  Reduction r{.op = op == Op::kMax ? "MaxOp" : "SumOp",
              .kept = Merged(shape->kept),
              .reduced = Merged(shape->reduced),
              .results = site.outputs[0].elements};
  if (op == Op::kMean) r.divisor = static_cast<double>(r.reduced.Elements());
  r.most_parts = std::min(RowSumParts(r.results), site.workspace_bytes / ReducePartBytes(r.results));
  const bool keeps_last = !r.kept.dims.empty() && r.kept.strides.back() == 1;
  return keeps_last ? LeadingAxes(context, r, why) : LastAxis(context, r, why);
}

}  // namespace

void RegisterCudaReduce(KernelRegistry& registry, const CudaContext& context) {
  const auto add = [&](const std::string& op, const std::string& name, Op which) {
    registry.Add(op, {name, [&context, which](const KernelSite& site, std::string* why) {
                        return Reduce(context, which, site, why);
                      }});
  };
  add("ReduceSum", "cuda.reduce_sum", Op::kSum);
  add("ReduceMean", "cuda.reduce_mean", Op::kMean);
  add("ReduceMax", "cuda.reduce_max", Op::kMax);
}

}  // namespace act::cuda
