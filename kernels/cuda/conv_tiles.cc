// Convolutions by our own tiles of products (source/conv.h): slower than a library's, for every shape, in no
// workspace.
#include "kernels/cuda/conv_tiles.h"

#include "kernels/cuda/conv_site.h"
#include "kernels/cuda/device_window.h"
#include "kernels/cuda/float_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/conv_parameters.h"
#include "kernels/cuda/sum_parts.h"
#include "kernels/site/lambda_kernel.h"

namespace act::cuda {
namespace {

Divisor Tiles(int64_t extent) { return DivisorOf((extent + kTile - 1) / kTile); }

}  // namespace

std::unique_ptr<Kernel> CreateConvTiles(const CudaContext& context, ConvolutionDirection direction,
                                        const KernelSite& site, std::string* why) {
  const auto shape = ConvShapeAt(direction, site, why);
  if (!shape) return nullptr;
  const ConvShape& s = *shape;
  const auto window = WindowParametersOf(s, why);
  if (!window) return nullptr;
  const bool input = direction == ConvolutionDirection::kInputGradient,
             weight = direction == ConvolutionDirection::kWeightGradient;
  const int64_t pixels = s.batch * (input ? s.InPixels() : s.OutPixels()), taps = s.KernelPixels();
  const int64_t rows = weight ? s.GroupOut() : pixels, columns = weight  ? taps * s.GroupIn()
                                                                 : input ? s.GroupIn()
                                                                         : s.GroupOut();
  if (std::max({pixels, taps * s.channels, taps * s.out_channels}) >= kMaxCount)
    return Refuse(why, "2^31 pixels or weights of a row, or more");
  ConvParameters p;
  p.window = *window;
  p.pixels = static_cast<int32_t>(pixels);
  p.channels = static_cast<int32_t>(s.channels);
  p.out_channels = static_cast<int32_t>(s.out_channels);
  p.group_in = DivisorOf(s.GroupIn());
  p.group_out = DivisorOf(s.GroupOut());
  p.taps = static_cast<int32_t>(taps);
  p.tiles_rows = Tiles(rows);
  p.tiles_columns = Tiles(columns);
  p.groups = DivisorOf(s.group);
  const int64_t elements = site.outputs[0].elements;
  const int64_t blocks = elements > 0 ? int64_t{p.tiles_rows.by} * p.tiles_columns.by * s.group : 0;
  // At least half of kSumLength products, which cost more than adding a part.
  const PartSums parts(context, elements, blocks, weight ? pixels : 0, kSumLength / 2, site.workspace_bytes);
  p.part_length = static_cast<int32_t>(parts.part_length());
  p.part_elements = elements;
  if (blocks * parts.count() >= kMaxCount) return Refuse(why, "2^31 tiles or more");
  const std::string function = weight ? "ConvGradWeight" : input ? "ConvGradInput" : "Conv";
  const char* name = weight ? "conv_grad_weight" : input ? "conv_grad_input" : "conv";
  const std::string of = FloatType(site.inputs[0].dtype), to = FloatType(site.outputs[0].dtype);
  const OwnKernel<ConvParameters> kernel(
      context, name, "ConvParameters", "conv",
      function + (weight ? TemplateArguments(of) : TemplateArguments(of, to)));
  return MakeKernel(
      [p, kernel, parts, blocks, direction](const KernelArgs& args) mutable -> std::string {
        const ConvOperands at(direction, args.inputs, args.outputs);
        p.x = at.x->as<void>();
        p.w = at.w->as<float>();
        p.y = at.y->as<void>();
        p.bias = at.bias ? at.bias->as<float>() : nullptr;
        p.to = args.outputs[0].as<void>();
        if (direction != ConvolutionDirection::kWeightGradient) return kernel.Launch(blocks, p);
        float *dw = args.outputs[0].as<float>(), *workspace = args.workspace.data.as<float>();
        p.to = parts.Target(dw, workspace);
        if (Status status = kernel.Launch(blocks * parts.count(), p); !status.empty()) return status;
        return parts.Add(workspace, dw);
      },
      parts.WorkspaceBytes(), weight ? std::to_string(parts.count()) + " parts of the pixels" : "");
}

}  // namespace act::cuda
