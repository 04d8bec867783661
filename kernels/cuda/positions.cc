// Range, FlatIndex and NonZero: positions of elements.
#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/number_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/positions_parameters.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/position_shape.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

static_assert(kFoundItems == kFoundByBlock);

std::unique_ptr<Kernel> Range(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto shape = RangeShapeOf(site, why);
  if (!shape) return nullptr;
  const int64_t count = site.outputs[0].elements;
  if (count >= kMaxCount) return Refuse(why, "2^31 elements");
  const int64_t last = SaturatingAdd(shape->first, SaturatingMul(shape->step, count));
  if (last <= -kTooLarge || last >= kTooLarge) return Refuse(why, "its numbers saturate");
  const OwnKernel<RangeParameters> kernel(context, "range", "RangeParameters", "positions", "Range");
  return MakeKernel([s = *shape, count, kernel](const KernelArgs& args) -> std::string {
    return kernel.LaunchItems(count,
                              {args.outputs[0].as<int64_t>(), s.first, s.step, static_cast<int32_t>(count)});
  });
}

std::unique_ptr<Kernel> FlatIndex(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto extents = FlatIndexExtentsOf(site, why);
  if (!extents) return nullptr;
  const TensorView &tuples = site.inputs[0], &y = site.outputs[0];
  if (extents->size() > kMaxAxes || y.elements >= kMaxCount)
    return Refuse(why, "more than 8 axes, or 2^31 tuples");
  FlatIndexParameters shared;
  shared.length = static_cast<int32_t>(extents->size());
  shared.items = static_cast<int32_t>(y.elements);
  for (size_t k = 0; k < extents->size(); ++k) {
    shared.extents[k] = (*extents)[k];
    shared.fault_sites[k] = context.fault_sites.Add("node '" + site.node->name + "' (" + site.node->op +
                                                    "), an axis of extent " + std::to_string((*extents)[k]));
  }
  const OwnKernel<FlatIndexParameters> kernel(context, "flat_index", "FlatIndexParameters", "positions",
                                              "FlatIndex" + TemplateArguments(IntegerType(tuples.dtype)));
  return MakeKernel([&context, shared, kernel](const KernelArgs& args) -> std::string {
    FlatIndexParameters p = shared;
    p.tuples = args.inputs[0].as<void>();
    p.y = args.outputs[0].as<int64_t>();
    p.faults = context.fault_record.as<FaultRecord>();
    return kernel.LaunchItems(p.items, p);
  });
}

std::unique_ptr<Kernel> NonZero(const CudaContext& context, const KernelSite& site, std::string* why) {
  if (!NonZeroFits(site, why)) return nullptr;
  const TensorView& x = site.inputs[0];
  if (x.dims.size() > kMaxAxes || x.elements >= kMaxCount)
    return Refuse(why, "more than 8 axes, or 2^31 elements");
  const int64_t bytes = CudaNonZeroBytes(x.elements);
  if (bytes > site.workspace_bytes) return Refuse(why, TooLittleWorkspace(bytes, site.workspace_bytes));
  NonZeroParameters shared;
  shared.count = static_cast<int32_t>(x.elements);
  shared.blocks = static_cast<int32_t>(DivideUp(x.elements, kFoundItems));
  shared.rank = static_cast<int32_t>(x.dims.size());
  for (size_t d = 0; d < x.dims.size(); ++d) shared.dims[d] = DivisorOf(x.dims[d]);
  const std::string type = x.dtype == DType::kFloat64 ? "double" : NumberType(x.dtype);
  using NonZeroKernel = OwnKernel<NonZeroParameters>;
  const auto make = [&context](const std::string& name, const std::string& function, int threads) {
    return NonZeroKernel(context, name, "NonZeroParameters", "positions", function, threads);
  };
  const NonZeroKernel count = make("count_nonzero", "CountNonZero" + TemplateArguments(type), kFoundThreads),
                      scan = make("scan_nonzero", "ScanNonZero", kFoundScanThreads),
                      place = make("place_nonzero", "PlaceNonZero" + TemplateArguments(type), kFoundThreads),
                      end = make("end_nonzero", "EndNonZero", kFoundThreads);
  return MakeKernel(
      [shared, count, scan, place, end](const KernelArgs& args) -> std::string {
        NonZeroParameters p = shared;
        if (p.count == 0) return "";
        p.x = args.inputs[0].as<void>();
        p.at = args.outputs[0].as<int64_t>();
        p.live = args.outputs[1].as<uint8_t>();
        p.counts = args.workspace.data.as<uint32_t>();
        Status status = count.Launch(p.blocks, p);
        if (status.empty()) status = scan.Launch(1, p);
        if (status.empty()) status = place.Launch(p.blocks, p);
        return status.empty() ? end.LaunchItems(p.count, p) : status;
      },
      bytes);
}

}  // namespace

void RegisterCudaPositions(KernelRegistry& registry, const CudaContext& context) {
  const auto add = [&](const std::string& op, const std::string& name, auto create) {
    registry.Add(op, {name, [&context, create](const KernelSite& site, std::string* why) {
                        return create(context, site, why);
                      }});
  };
  add("Range", "cuda.range", Range);
  add("FlatIndex", "cuda.flat_index", FlatIndex);
  add("NonZero", "cuda.nonzero", NonZero);
}

}  // namespace act::cuda
