// GridSampleGradInput: what points add to pixels, sorted by pixel, some samples at a time.
#include <bit>

#include "kernels/cuda/grid_site.h"
#include "kernels/cuda/pair_sort.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/workspace_pieces.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act::cuda {
namespace {

class GridGradient {
 public:
  GridGradient(const CudaContext& context, const GridShape& shape, const GridShapeParameters& parameters,
               int64_t samples)
      : context_(&context),
        shape_(shape),
        parts_of_point_(PartsOfPoint(shape)),
        samples_(samples),
        at_once_(ChannelsAtOnce(shape.channels)),
        find_(context, "find_grid_parts", "GridGradInputParameters", "grid_sample",
              "FindParts" + GridArguments(shape), kGridThreads),
        add_(context, "add_grid_parts", "GridGradInputParameters", "grid_sample",
             "AddParts" + TemplateArguments(parts_of_point_, at_once_), kGridThreads),
        sort_(context) {
    parameters_.shape = parameters;
    parameters_.groups = DivisorOf(shape.channels / at_once_);
  }

  Status Run(const KernelArgs& args) const {
    const TensorView& dx = args.outputs[0];
    Status status = context_->driver().Fill8(context_->stream, dx.as<std::byte>(), 0, dx.bytes);
    for (int64_t first = 0; first < shape_.batch && status.empty(); first += samples_)
      status = RunSamples(args, first, std::min(samples_, shape_.batch - first));
    return status;
  }

 private:
  Status RunSamples(const KernelArgs& args, int64_t first, int64_t samples) const {
    const int64_t points = samples * shape_.points, parts = points * parts_of_point_;
    if (parts == 0) return "";
    const int64_t before = first * shape_.points, pixels = samples * shape_.Pixels();
    WorkspacePieces pieces(args.workspace);
    SortScratch scratch = TakeSortScratch(pieces, parts);
    GridGradInputParameters p = parameters_;
    p.weights = pieces.Take(parts * int64_t{sizeof(double)}).as<double>();
    p.dy = args.inputs[0].as<float>() + before * shape_.channels;
    p.shape.grid = args.inputs[1].as<float>() + before * shape_.axes();
    p.dx = args.outputs[0].as<float>() + first * shape_.Pixels() * shape_.channels;
    p.no_pixel = static_cast<uint32_t>(pixels);
    p.points = static_cast<int32_t>(points);
    p.parts = static_cast<int32_t>(parts);
    p.items = static_cast<int32_t>(parts * (shape_.channels / at_once_));
    p.pixels = scratch.pairs.keys;
    p.numbers = scratch.pairs.values;
    Status status = find_.LaunchItems(points, p);
    if (status.empty()) status = sort_.Run(scratch, parts, static_cast<int>(std::bit_width(p.no_pixel)));
    p.pixels = scratch.pairs.keys;
    p.numbers = scratch.pairs.values;
    return status.empty() ? add_.LaunchItems(p.items, p) : status;
  }

  using GradientKernel = OwnKernel<GridGradInputParameters>;

  const CudaContext* context_;
  GridShape shape_;
  GridGradInputParameters parameters_;
  int64_t parts_of_point_, samples_;  // samples: at a time
  int at_once_;                       // channels of a thread
  GradientKernel find_, add_;
  PairSort sort_;
};

// How many samples have room in the workspace, and numbers that device code counts with.
int64_t SamplesAtOnce(const GridShape& s, int64_t workspace_bytes) {
  const int64_t parts = s.points * PartsOfPoint(s);
  const int64_t most = std::max({parts * (s.channels / ChannelsAtOnce(s.channels)), s.Pixels(), int64_t{1}});
  int64_t samples = std::min(s.batch, (kMaxCount - 1) / most);
  if (parts > 0)
    samples = std::min(samples, workspace_bytes / (parts * int64_t{4 * sizeof(uint32_t) + sizeof(double)}));
  while (samples > 0 && CudaGridGradientBytes(samples * parts) > workspace_bytes) --samples;
  return samples;
}

// dy, grid -> dx
std::unique_ptr<Kernel> GridSampleGradInput(const CudaContext& context, const KernelSite& site,
                                            std::string* why) {
  const TensorView &dy = site.inputs[0], &dx = site.outputs[0];
  const auto shape = GridShapeOf(site.node->attrs, dx, site.inputs[1], dy, why);
  if (!shape) return nullptr;
  const auto parameters = GridParametersOf(*shape, 0, why);
  if (!parameters) return nullptr;
  if (dx.elements == 0) return MakeKernel([](const KernelArgs&) -> std::string { return ""; });
  const int64_t samples = SamplesAtOnce(*shape, site.workspace_bytes);
  if (samples == 0) return Refuse(why, "the workspace does not hold the parts of a sample, or they are 2^31");
  const int64_t parts = samples * shape->points * PartsOfPoint(*shape);
  return MakeKernel([gradient = GridGradient(context, *shape, *parameters, samples)](
                        const KernelArgs& args) { return gradient.Run(args); },
                    CudaGridGradientBytes(parts), std::to_string(samples) + " samples at a time");
}

}  // namespace

void RegisterCudaGridGradient(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("GridSampleGradInput",
               {"cuda.grid_sample_grad_input", [&context](const KernelSite& site, std::string* why) {
                  return GridSampleGradInput(context, site, why);
                }});
}

}  // namespace act::cuda
