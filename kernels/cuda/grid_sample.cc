// GridSample and the gradient of its grid.
#include "kernels/cuda/grid_site.h"
#include "kernels/cuda/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act::cuda {
namespace {

std::unique_ptr<Kernel> Nothing() {
  return MakeKernel([](const KernelArgs&) -> std::string { return ""; });
}

// x, grid -> y
std::unique_ptr<Kernel> GridSample(const CudaContext& context, const KernelSite& site, std::string* why) {
  const TensorView &x = site.inputs[0], &y = site.outputs[0];
  const auto shape = GridShapeOf(site.node->attrs, x, site.inputs[1], y, why);
  if (!shape) return nullptr;
  const int channels = ChannelsAtOnce(shape->channels);
  const auto parameters = GridParametersOf(*shape, y.elements / channels, why);
  if (!parameters) return nullptr;
  if (y.elements == 0) return Nothing();
  GridSampleParameters shared;
  shared.shape = *parameters;
  shared.groups = DivisorOf(shape->channels / channels);
  shared.items = static_cast<int32_t>(y.elements / channels);
  const OwnKernel<GridSampleParameters> kernel(context, "grid_sample", "GridSampleParameters", "grid_sample",
                                               "GridSample" + GridArguments(*shape, channels), kGridThreads);
  return MakeKernel([shared, kernel](const KernelArgs& args) -> std::string {
    GridSampleParameters p = shared;
    p.x = args.inputs[0].as<float>();
    p.shape.grid = args.inputs[1].as<float>();
    p.y = args.outputs[0].as<float>();
    return kernel.LaunchItems(p.items, p);
  });
}

// dy, x, grid -> dgrid
std::unique_ptr<Kernel> GridSampleGradGrid(const CudaContext& context, const KernelSite& site,
                                           std::string* why) {
  const TensorView &dy = site.inputs[0], &grid = site.inputs[2], &dgrid = site.outputs[0];
  const auto shape = GridShapeOf(site.node->attrs, site.inputs[1], grid, dy, why);
  if (!shape) return nullptr;
  if (dgrid.dims != grid.dims || dgrid.dtype != grid.dtype)
    return Refuse(why, "the gradient has the grid's extents and type");
  constexpr int64_t kWarp = 32;
  const int64_t points = shape->batch * shape->points;
  const int64_t team = std::min(PowerOfTwoAbove(std::max<int64_t>(shape->channels, 1)), kWarp);
  const auto parameters = GridParametersOf(*shape, points * team, why);
  if (!parameters) return nullptr;
  // Without channels there may be no pixel to read, and all slopes are 0.
  if (dy.elements == 0)
    return MakeKernel([&context](const KernelArgs& args) -> std::string {
      const TensorView& zeros = args.outputs[0];
      return zeros.bytes == 0 ? ""
                              : context.driver().Fill8(context.stream, zeros.as<std::byte>(), 0, zeros.bytes);
    });
  GridGradGridParameters shared;
  shared.shape = *parameters;
  shared.count = static_cast<int32_t>(points);
  const OwnKernel<GridGradGridParameters> kernel(context, "grid_sample_grad_grid", "GridGradGridParameters",
                                                 "grid_sample", "GridGradGrid" + GridArguments(*shape, team),
                                                 kGridThreads);
  return MakeKernel([shared, team, kernel](const KernelArgs& args) -> std::string {
    GridGradGridParameters p = shared;
    p.dy = args.inputs[0].as<float>();
    p.x = args.inputs[1].as<float>();
    p.shape.grid = args.inputs[2].as<float>();
    p.dgrid = args.outputs[0].as<float>();
    return kernel.LaunchItems(p.count * team, p);
  });
}

}  // namespace

void RegisterCudaGridSample(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("GridSample", {"cuda.grid_sample", [&context](const KernelSite& site, std::string* why) {
                                return GridSample(context, site, why);
                              }});
  registry.Add("GridSampleGradGrid",
               {"cuda.grid_sample_grad_grid", [&context](const KernelSite& site, std::string* why) {
                  return GridSampleGradGrid(context, site, why);
                }});
}

}  // namespace act::cuda
