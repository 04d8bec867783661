// Integer and IntegerReduce: exact arithmetic on integers of any type.
#include <algorithm>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/number_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/integer_parameters.h"
#include "kernels/site/dereference.h"
#include "kernels/site/fused_shape.h"
#include "kernels/site/integer_shape.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/reduce_shape.h"
#include "kernels/site/rows.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

std::string OpcodeText(IntegerOpcode code) {
  return "act::IntegerOpcode(" + std::to_string(static_cast<int>(code)) + ")";
}
const char* FlagText(bool set) { return set ? "true" : "false"; }

// "integer_shift_left"
std::string KernelName(const std::string& prefix, std::string op) {
  std::replace(op.begin(), op.end(), '-', '_');
  return prefix + op;
}

bool MayDivideByZero(IntegerOpcode code) {
  return code == IntegerOpcode::kDiv || code == IntegerOpcode::kMod || code == IntegerOpcode::kRem ||
         code == IntegerOpcode::kPow;
}

// The axes of the result, with neighbours merged where that describes every operand. False if there are too many.
bool SetAxes(const KernelSite& site, IntegerParameters& p) {
  const std::vector<int64_t>& dims = site.outputs[0].dims;
  std::vector<std::vector<int64_t>> strides;
  for (const TensorView& x : site.inputs) strides.push_back(BroadcastStrides(x.dims, dims));
  std::vector<int64_t> merged;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    const auto last = static_cast<size_t>(p.axes - 1);
    bool joins = p.axes > 0;
    for (size_t k = 0; k < strides.size() && joins; ++k)
      joins = p.strides[k][last] == strides[k][d] * dims[d];
    if (!joins && p.axes == kMaxAxes) return false;
    const size_t axis = joins ? last : static_cast<size_t>(p.axes++);
    joins ? void(merged[axis] *= dims[d]) : merged.push_back(dims[d]);
    for (size_t k = 0; k < strides.size(); ++k) p.strides[k][axis] = strides[k][d];
  }
  for (size_t d = 0; d < merged.size(); ++d) p.dims[d] = DivisorOf(merged[d]);
  return true;
}

std::unique_ptr<Kernel> Integer(const CudaContext& context, const KernelSite& site, std::string* why) {
  const IntegerOp* op = IntegerOpOf(site, why);
  if (!op) return nullptr;
  const TensorView& y = site.outputs[0];
  if (y.elements >= kMaxCount) return Refuse(why, "2^31 elements");
  IntegerParameters shared;
  if (!SetAxes(site, shared)) return Refuse(why, "more than 8 axes");
  shared.items = static_cast<int32_t>(y.elements);
  if (MayDivideByZero(op->code))
    shared.fault_site = context.fault_sites.Add("node '" + site.node->name + "' (" + site.node->op + ")");
  const DType flag = site.inputs[0].dtype, type = site.inputs[FirstOfOneType(*op)].dtype;
  const OwnKernel<IntegerParameters> kernel(
      context, KernelName("integer_", op->name), "IntegerParameters", "integer",
      "Integer" + TemplateArguments(OpcodeText(op->code), op->operands, IntegerType(flag), IntegerType(type),
                                    IntegerType(y.dtype), FlagText(y.dtype == DType::kBool)));
  return MakeKernel([&context, shared, kernel](const KernelArgs& args) -> std::string {
    IntegerParameters p = shared;
    for (size_t k = 0; k < args.inputs.size(); ++k) p.x[k] = args.inputs[k].as<void>();
    p.y = args.outputs[0].as<void>();
    p.faults = context.fault_record.as<FaultRecord>();
    return kernel.LaunchItems(p.items, p);
  });
}

// One stage of a reduction: the whole, its parts, or what parts give.
struct Stage {
  OwnKernel<IntegerReduceParameters> kernel;
  int64_t blocks = 0;
  IntegerReduceParameters shape;

  Status Run(const void* x, void* y) const {
    IntegerReduceParameters p = shape;
    p.x = x;
    p.y = y;
    return kernel.Launch(blocks, p);
  }
};

// Fewer elements for each thread are not worth a second stage.
constexpr int64_t kThreadElements = 64, kWarp = 32, kBlock = OwnKernel<IntegerReduceParameters>::kThreads;

// The threads that reduce `count` elements of a result together. One where neighbours are other results' elements.
int64_t TeamFor(int64_t count, bool keeps_last) {
  if (keeps_last) return 1;
  return count > kWarp * kThreadElements ? kBlock
                                         : std::min(PowerOfTwoAbove(std::max<int64_t>(count, 1)), kWarp);
}

// `sums`: x has what parts gave.
Stage StageOf(const CudaContext& context, const IntegerReduction& r, DType dtype,
              const IntegerReduceParameters& shape, int64_t team, bool sums, bool finishes) {
  const std::string type = IntegerType(dtype);
  const std::string function =
      "ReduceIntegers" + TemplateArguments(OpcodeText(r.code), type,
                                           sums ? "act::cuda::IntegerSum<" + type + ">" : type, team,
                                           FlagText(finishes));
  return {{context, KernelName("integer_reduce_", r.name), "IntegerReduceParameters", "integer", function},
          DivideUp(int64_t{shape.results} * shape.parts, kBlock / team),
          shape};
}

std::unique_ptr<Kernel> IntegerReduce(const CudaContext& context, const KernelSite& site, std::string* why) {
  const IntegerReduction* r = IntegerReductionOf(site, why);
  if (!r) return nullptr;
  const TensorView &x = site.inputs[0], &y = site.outputs[0];
  const auto shape = ReduceShapeOf(site.node->attrs, x, y, why);
  if (!shape) return nullptr;
  if (y.elements == 0) return MakeKernel([](const KernelArgs&) -> std::string { return ""; });
  const Strided kept = Merged(shape->kept), reduced = Merged(shape->reduced);
  const auto kept_axes = AxesOf(kept), reduced_axes = AxesOf(reduced);
  const int64_t count = reduced.Elements();
  if (!kept_axes || !reduced_axes) return Refuse(why, "more than 8 axes, or 2^31 elements");
  if (r->divides && count == 0) return Refuse(why, "the mean of nothing is an error of the step");
  const bool keeps_last = !kept.dims.empty() && kept.strides.back() == 1;
  const int64_t team = TeamFor(count, keeps_last), results = y.elements;
  const int64_t most =
      std::min(CudaTarget().RowSumParts(results), site.workspace_bytes / (results * kCudaSumBytes));
  const int64_t wanted = std::clamp<int64_t>(count / (team * kThreadElements), 1, std::max<int64_t>(most, 1));
  const int64_t part_count = std::max<int64_t>(DivideUp(count, wanted), 1),
                parts = std::max<int64_t>(DivideUp(count, part_count), 1);
  if (results * parts * team >= kMaxCount) return Refuse(why, "2^31 threads");
  IntegerReduceParameters whole{.kept = *kept_axes,
                                .reduced = *reduced_axes,
                                .results = static_cast<int32_t>(results),
                                .count = static_cast<int32_t>(count),
                                .parts = static_cast<int32_t>(parts),
                                .part_count = static_cast<int32_t>(part_count),
                                .divisor = r->divides ? count : 0,
                                .of_flags = y.dtype == DType::kBool};
  const Stage first = StageOf(context, *r, x.dtype, whole, team, false, parts == 1);
  if (parts == 1)
    return MakeKernel([first](const KernelArgs& args) -> std::string {
      return first.Run(args.inputs[0].as<void>(), args.outputs[0].as<void>());
    });
  IntegerReduceParameters of_parts = whole;
  of_parts.kept = *AxesOf({{results}, {1}, 0});
  of_parts.reduced = *AxesOf({{parts}, {results}, 0});
  of_parts.count = of_parts.part_count = static_cast<int32_t>(parts);
  of_parts.parts = 1;
  const Stage last = StageOf(context, *r, x.dtype, of_parts, TeamFor(parts, results >= kWarp), true, true);
  return MakeKernel(
      [first, last](const KernelArgs& args) -> std::string {
        void* sums = args.workspace.data.as<void>();
        const Status status = first.Run(args.inputs[0].as<void>(), sums);
        return status.empty() ? last.Run(sums, args.outputs[0].as<void>()) : status;
      },
      parts* results* kCudaSumBytes);
}

}  // namespace

void RegisterCudaInteger(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("Integer", {"cuda.integer", [&context](const KernelSite& site, std::string* why) {
                             return Integer(context, site, why);
                           }});
  registry.Add("IntegerReduce", {"cuda.integer_reduce", [&context](const KernelSite& site, std::string* why) {
                                   return IntegerReduce(context, site, why);
                                 }});
}

}  // namespace act::cuda
