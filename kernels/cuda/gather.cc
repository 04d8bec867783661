// Gather and Scatter.
#include "kernels/site/gather_shape.h"

#include <numeric>

#include "kernels/cuda/coded_numbers.h"
#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/sorted_updates.h"
#include "kernels/cuda/source/lookup_parameters.h"
#include "kernels/cuda/strided_copy.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"

namespace act::cuda {
namespace {

// What all places of rows in the large tensor are multiples of, in elements.
int64_t CommonStride(const LookupShape& s) {
  int64_t unit = s.step;
  for (const int64_t stride : s.whole.strides) unit = std::gcd(unit, stride);
  return std::max<int64_t>(unit, 1);
}

// Places are in units of `unit` elements. Nullopt, with the reason in *why, if there are too many axes
// or rows.
std::optional<LookupParameters> ParametersOf(const CudaContext& context, const KernelSite& site,
                                             const LookupShape& s, int64_t unit, std::string* why) {
  Strided places = s.whole;
  for (int64_t& stride : places.strides) stride /= unit;
  const auto rows = AxesOf(places, &s.index);
  if (!rows || s.live_rows >= kMaxCount || s.live_extent >= kMaxCount) {
    *why = "more than 8 axes, or 2^31 rows";
    return std::nullopt;
  }
  LookupParameters p;
  p.rows = *rows;
  p.extent = s.extent;
  p.step = s.step / unit;
  p.live_rows = DivisorOf(s.live_rows);
  p.live_extent = DivisorOf(s.live_extent);
  p.fault_site = context.fault_sites.Add("node '" + site.node->name + "' (" + site.node->op +
                                         "), an axis of extent " + std::to_string(s.extent));
  return p;
}

void SetOperands(LookupParameters& p, const CudaContext& context, const TensorView& index,
                 const TensorView* live) {
  p.index = index.as<void>();
  p.live = live ? live->as<void>() : nullptr;
  p.faults = context.fault_record.as<FaultRecord>();
}

// Template arguments of lookup.h.
std::string IndexType(const LookupShape& s) { return s.index_dtype == DType::kInt64 ? "int64_t" : "int32_t"; }
std::string FlagsOf(const TensorView* live) {
  const std::string type = !live ? "kNone" : live->dtype == DType::kFloat32 ? "kFloats" : "kBytes";
  return "act::cuda::LiveFlags::" + type;
}

std::unique_ptr<Kernel> Gather(const CudaContext& context, const KernelSite& site, std::string* why) {
  if (site.inputs.size() < 2 || site.outputs.empty()) return Refuse(why, "needs x, index and a result");
  const TensorView &index = site.inputs[1], &y = site.outputs[0], x = NumbersOf(site.inputs[0]);
  const CodedParameter* const coded = site.inputs[0].coded;
  const TensorView* live = OptionalInput(site.inputs, 2);
  const auto shape = LookupShapeOf(site.node->attrs, x, y, index, live, why);
  if (!shape) return nullptr;
  const int64_t size = ByteSize(y.dtype), row_bytes = shape->length * size;
  const int64_t unit =
      coded ? size : UnitBytes(UnitBytes(row_bytes, CommonStride(*shape) * size), CommonAlignment(x, y));
  if (y.bytes / unit >= kMaxCount) return Refuse(why, "2^31 elements");
  const auto lookup = ParametersOf(context, site, *shape, std::max<int64_t>(unit / size, 1), why);
  if (!lookup) return nullptr;
  GatherParameters shared;
  shared.lookup = *lookup;
  shared.row_units = DivisorOf(row_bytes / unit);
  shared.items = static_cast<int32_t>(y.bytes / unit);
  const auto kernel =
      coded ? CodedGather(context, *coded, IndexType(*shape), FlagsOf(live))
            : OwnKernel<GatherParameters>(
                  context, "gather", "GatherParameters", "gather",
                  "Gather" + TemplateArguments(UnitType(unit), IndexType(*shape), FlagsOf(live)));
  return MakeKernel([&context, shared, kernel](const KernelArgs& args) -> std::string {
    GatherParameters p = shared;
    SetOperands(p.lookup, context, args.inputs[1], OptionalInput(args.inputs, 2));
    p.x = args.inputs[0].as<void>();
    p.y = args.outputs[0].as<void>();
    return kernel.LaunchItems(p.items, p);
  });
}

// y = the operand that updates are written into, or 0.
Status Start(const CudaContext& context, const TensorView& y, const TensorView* into) {
  Driver& driver = context.driver();
  auto* to = y.as<std::byte>();
  if (y.bytes == 0 || (into && into->data == y.data)) return "";
  return into ? driver.CopyOnDevice(context.stream, to, into->as<std::byte>(), y.bytes)
              : driver.Fill8(context.stream, to, 0, y.bytes);
}

std::unique_ptr<Kernel> Scatter(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto shape = ScatterShapeOf(site, why);
  if (!shape) return nullptr;
  const LookupShape& s = shape->lookup;
  const TensorView &update = site.inputs[0], &y = site.outputs[0];
  if (update.elements == 0)
    return MakeKernel([&context](const KernelArgs& args) -> std::string {
      return Start(context, args.outputs[0], OptionalInput(args.inputs, 2));
    });
  const int64_t unit = CommonStride(s), targets = DivideUp(y.elements, unit);
  if (targets >= kMaxCount) return Refuse(why, "2^31 targets");
  const auto lookup = ParametersOf(context, site, s, unit, why);
  if (!lookup) return nullptr;
  ScatterParameters shared;
  shared.lookup = *lookup;
  shared.unit = unit;
  shared.targets = static_cast<uint32_t>(targets);
  shared.count = static_cast<int32_t>(s.Rows());
  shared.length = DivisorOf(s.length);
  const auto updates = SortedUpdates::Of(context, shared, y.dtype, shape->reduction,
                                         IndexType(s) + ", " + FlagsOf(OptionalInput(site.inputs, 3)), why);
  if (!updates) return nullptr;
  if (updates->WorkspaceBytes() > site.workspace_bytes)
    return Refuse(why, "the workspace does not hold the rows' order, of " +
                           std::to_string(updates->WorkspaceBytes()) + " bytes");
  return MakeKernel(
      [&context, shared, updates = *updates](const KernelArgs& args) -> std::string {
        ScatterParameters p = shared;
        SetOperands(p.lookup, context, args.inputs[1], OptionalInput(args.inputs, 3));
        p.update = args.inputs[0].as<void>();
        p.y = args.outputs[0].as<void>();
        const Status status = Start(context, args.outputs[0], OptionalInput(args.inputs, 2));
        return status.empty() ? updates.Run(p, args.workspace) : status;
      },
      updates->WorkspaceBytes());
}

}  // namespace

void RegisterCudaGather(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("Gather", {"cuda.gather", [&context](const KernelSite& site, std::string* why) {
                            return Gather(context, site, why);
                          }});
  registry.Add("Scatter", {"cuda.scatter", [&context](const KernelSite& site, std::string* why) {
                             return Scatter(context, site, why);
                           }});
}

}  // namespace act::cuda
