// ReduceSum, ReduceMean and ReduceMax. Where few results have many elements each, blocks reduce parts of
// them to the workspace, and a second kernel merges the parts.
#include <algorithm>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/float_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/reduce_parameters.h"
#include "kernels/site/dereference.h"
#include "kernels/site/float_types.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/reduce_shape.h"
#include "kernels/site/rows.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

enum class Op { kSum, kMean, kMax };

struct Reduction {
  std::string op, type;   // in device code; type: of x
  Strided kept, reduced;  // merged
  int64_t results = 0;
  double divisor = 1;
  int64_t most_parts = 1;  // for which the workspace suffices
  bool aligned = false;    // every sample of x, to four elements

  int64_t WorkspaceBytes(int64_t parts) const { return parts > 1 ? parts * results * kCudaSumBytes : 0; }
  ReduceResult Result(const KernelArgs& args) const {
    return {args.outputs[0].as<float>(), args.workspace.data.as<double>(), static_cast<int32_t>(results),
            divisor};
  }
};

using ReduceColumnsKernel = OwnKernel<ReduceColumnsParameters>;
using ReduceRowsKernel = OwnKernel<ReduceRowsParameters>;

// The second stage.
class PartsMerger {
 public:
  PartsMerger(const CudaContext& context, const Reduction& r, int64_t parts)
      : kernel_(context, "merge_reductions", "MergePartsParameters", "reduce",
                "MergeReductions<" + r.op + ">", kMergeThreads),
        blocks_(DivideUp(r.results, kMergeColumns)),
        parts_(static_cast<int32_t>(parts)) {}
  Status Run(const ReduceResult& result) const { return kernel_.Launch(blocks_, {parts_, result}); }

 private:
  OwnKernel<MergePartsParameters> kernel_;
  int64_t blocks_;
  int32_t parts_;
};

std::optional<PartsMerger> MergerOf(const CudaContext& context, const Reduction& r, int64_t parts) {
  if (parts == 1) return std::nullopt;
  return PartsMerger(context, r, parts);
}

// The last axis of x is kept.
std::unique_ptr<Kernel> LeadingAxes(const CudaContext& context, const Reduction& r, std::string* why) {
  const Rows kept = RowsOf(r.kept);
  const auto plan = PlanColumns(kept.outer, kept.length, r.reduced, r.most_parts, r.aligned);
  if (!plan) return Refuse(why, "more than 8 axes, or 2^31 elements");
  const int32_t parts = plan->reduction.parts;
  const ReduceColumnsKernel reduce(
      context, "reduce_columns", "ReduceColumnsParameters", "reduce",
      "ReduceColumns" + TemplateArguments(r.op, r.type, plan->column_lanes, plan->vector), kColumnThreads);
  return MakeKernel(
      [r, reduce, merger = MergerOf(context, r, parts), plan = *plan](const KernelArgs& args) -> std::string {
        ReduceColumnsParameters p{plan.reduction, r.Result(args)};
        p.columns.x = args.inputs[0].as<void>();
        const Status status = reduce.Launch(plan.blocks, p);
        return status.empty() && merger ? merger->Run(p.result) : status;
      },
      r.WorkspaceBytes(parts));
}

// The last axis of x is reduced, or there is one result.
std::unique_ptr<Kernel> LastAxis(const CudaContext& context, const Reduction& r, std::string* why) {
  // Fewer elements for each thread of a block are not worth a block, nor a second stage.
  constexpr int64_t kWarp = 32, kThreadElements = 64;
  const auto kept = AxesOf(r.kept), reduced = AxesOf(r.reduced);
  if (!kept || !reduced) return Refuse(why, "more than 8 axes, or 2^31 elements");
  const Rows rows = RowsOf(r.reduced);
  const bool vectors = r.aligned && rows.length % 4 == 0 && AllMultiplesOf4(rows.outer.strides) &&
                       AllMultiplesOf4(r.kept.strides);
  const int64_t count = r.reduced.Elements(), vector = vectors ? 4 : 1;
  const int64_t lanes = std::max<int64_t>(count / vector, 1);
  const int64_t team =
      count > kWarp * kThreadElements ? kRowThreads : std::min(PowerOfTwoAbove(lanes), kWarp);
  const int64_t wanted =
      std::clamp<int64_t>(count / (kRowThreads * kThreadElements), 1, std::max<int64_t>(r.most_parts, 1));
  const int64_t part_count = std::max(DivideUp(count, wanted * vector), int64_t{1}) * vector;
  const int64_t parts = std::max<int64_t>(DivideUp(count, part_count), 1);
  if (r.results * parts >= kMaxCount) return Refuse(why, "2^31 results");
  const ReduceRowsParameters shape{.x = nullptr,
                                   .kept = *kept,
                                   .reduced = *reduced,
                                   .count = static_cast<int32_t>(count),
                                   .parts = static_cast<int32_t>(parts),
                                   .part_count = static_cast<int32_t>(part_count),
                                   .result = {}};
  const ReduceRowsKernel reduce(context, "reduce_rows", "ReduceRowsParameters", "reduce",
                                "ReduceRows" + TemplateArguments(r.op, r.type, team, vector), kRowThreads);
  const int64_t blocks = DivideUp(r.results * parts, kRowThreads / team);
  return MakeKernel(
      [r, shape, blocks, reduce,
       merger = MergerOf(context, r, parts)](const KernelArgs& args) -> std::string {
        ReduceRowsParameters p = shape;
        p.x = args.inputs[0].as<void>();
        p.result = r.Result(args);
        const Status status = reduce.Launch(blocks, p);
        return status.empty() && merger ? merger->Run(p.result) : status;
      },
      r.WorkspaceBytes(parts));
}

std::unique_ptr<Kernel> Reduce(const CudaContext& context, Op op, const KernelSite& site, std::string* why) {
  const TensorView &x = site.inputs[0], &y = site.outputs[0];
  if (!IsFloat32OrBFloat16(x.dtype) || y.dtype != DType::kFloat32)
    return Refuse(why, "from float32 or bfloat16 to float32 only");
  const auto shape = ReduceShapeOf(site.node->attrs, x, y, why);
  if (!shape) return nullptr;
  if (y.elements == 0) return MakeKernel([](const KernelArgs&) { return std::string(); });
  Reduction r{.op = op == Op::kMax ? "act::cuda::MaxOp" : "act::cuda::SumOp",
              .type = FloatType(x.dtype),
              .kept = Merged(shape->kept),
              .reduced = Merged(shape->reduced),
              .results = y.elements,
              .aligned = IsAlignedForVectors(x)};
  if (op == Op::kMean) r.divisor = static_cast<double>(r.reduced.Elements());
  r.most_parts =
      std::min(CudaTarget().RowSumParts(r.results), site.workspace_bytes / (r.results * kCudaSumBytes));
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
