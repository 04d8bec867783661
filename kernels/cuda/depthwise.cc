#include "kernels/cuda/source/depthwise_parameters.h"

#include <algorithm>

#include "kernels/cuda/conv_site.h"
#include "kernels/cuda/device_window.h"
#include "kernels/cuda/float_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/sum_parts.h"
#include "kernels/cuda/transpose.h"
#include "kernels/site/lambda_kernel.h"

namespace act::cuda {
namespace {

using Direction = ConvolutionDirection;

std::optional<ConvShape> DepthwiseShape(Direction direction, const KernelSite& site, std::string* why) {
  auto shape = ConvShapeAt(direction, site, why);
  if (!shape || (shape->GroupIn() == 1 && shape->GroupOut() == 1)) return shape;
  *why = "not depthwise";
  return std::nullopt;
}

// The gradient of the input of a convolution without strides: one of dy, with the window turned around.
Window TurnedAround(Window w) {
  std::swap(w.in, w.out);
  for (size_t a = 0; a < 3; ++a) w.pad[a] = w.dilation[a] * (w.kernel[a] - 1) - w.pad[a];
  return w;
}

// What a thread of Depthwise<..> does at a time: as much as its registers hold. It needs to know the stride,
// and that taps of a row are neighbours.
struct Run {
  int64_t outputs = 1, taps = 1, stride = 1;
};
Run RunOf(const Window& w) {
  const int64_t taps = w.kernel[2], stride = w.stride[2];
  if (w.dilation[2] != 1 || stride > 2 || taps > (stride == 2 ? 5 : 7)) return {};
  return {stride == 2 || taps > 5 ? 2 : 4, taps, stride};
}

std::unique_ptr<Kernel> Create(const CudaContext& context, Direction direction, const KernelSite& site,
                               std::string* why) {
  const auto shape = DepthwiseShape(direction, site, why);
  if (!shape) return nullptr;
  const bool backward = direction == Direction::kInputGradient;
  const bool gathers = backward && shape->stride != Window::Triple{1, 1, 1};
  const Window window = backward && !gathers ? TurnedAround(*shape) : Window(*shape);
  const auto parameters = WindowParametersOf(window, why);
  if (!parameters) return nullptr;
  const int64_t count = ChannelsAtOnce(window.channels), taps = window.KernelPixels(),
                channels = window.channels;
  const Run run = gathers ? Run() : RunOf(window);
  const int64_t runs = (window.out[2] + run.outputs - 1) / run.outputs;
  const int64_t pixels = gathers ? window.InPixels() : window.out[0] * window.out[1] * runs;
  const int64_t items = window.batch * pixels * channels / count;
  if (items >= kMaxCount || taps * channels >= kMaxCount) return Refuse(why, "2^31 elements or more");

  // Threads with several channels want weights [taps, C], of the type of what they are multiplied with.
  const DType of = site.inputs[0].dtype, to = site.outputs[0].dtype;
  const int64_t bytes = taps * channels * ByteSize(of);
  std::optional<TileTranspose> weights;
  if (count > 1 && taps > 1 && bytes <= site.workspace_bytes)
    weights =
        TileTranspose::Of(context, {{taps, channels}, {1, taps}}, sizeof(float), why, of == DType::kBFloat16);
  DepthwiseParameters p;
  p.window = *parameters;
  p.channels = static_cast<int32_t>(channels);
  p.w_tap = weights ? channels : 1;
  p.w_channel = weights ? 1 : taps;
  p.first_tap = backward && !gathers ? (taps - 1) * p.w_tap : 0;
  if (p.first_tap > 0) p.w_tap = -p.w_tap;
  p.groups = DivisorOf(channels / count);
  p.runs = DivisorOf(runs);
  p.items = static_cast<int32_t>(items);
  std::string function = gathers ? "DepthwiseGradInput<" : "Depthwise<";
  function += FloatType(of) + std::string(", ") + FloatType(weights ? of : DType::kFloat32) + ", " +
              FloatType(to) + ", " + std::to_string(count);
  if (!gathers)
    for (const int64_t of_run : {run.outputs, run.taps, run.stride})
      function += ", " + std::to_string(of_run);
  const OwnKernel<DepthwiseParameters> kernel(context, "depthwise", "DepthwiseParameters", "depthwise",
                                              function + ">");
  return MakeKernel(
      [p, kernel, weights](const KernelArgs& args) mutable -> std::string {
        const TensorView* bias = OptionalInput(args.inputs, 2);
        p.w = args.inputs[1].as<void>();
        if (weights && p.items > 0) {
          auto* transposed = args.workspace.data.as<void>();
          if (Status status = weights->Run(p.w, transposed); !status.empty()) return status;
          p.w = transposed;
        }
        p.from = args.inputs[0].as<void>();
        p.bias = bias ? bias->as<float>() : nullptr;
        p.to = args.outputs[0].as<void>();
        return kernel.LaunchItems(p.items, p);
      },
      weights ? bytes : 0, function + ">");
}

std::unique_ptr<Kernel> CreateGradWeight(const CudaContext& context, const KernelSite& site,
                                         std::string* why) {
  const auto shape = DepthwiseShape(Direction::kWeightGradient, site, why);
  if (!shape) return nullptr;
  const auto window = WindowParametersOf(*shape, why);
  if (!window) return nullptr;
  const auto up = [](int64_t n, int64_t by) { return DivisorOf((n + by - 1) / by); };
  // Sums of a thread: those of a row of taps or of several, up to 25.
  const int64_t columns = std::min<int64_t>(shape->kernel[2], 7),
                rows = std::min<int64_t>(shape->kernel[1], 25 / columns);
  const int64_t dy_rows = shape->batch * shape->out[0] * shape->out[1];
  DepthwiseGradWeightParameters p;
  p.window = *window;
  p.channels = static_cast<int32_t>(shape->channels);
  p.channel_blocks = up(shape->channels, 32);
  p.tap_rows = up(shape->kernel[1], rows);
  p.tap_columns = up(shape->kernel[2], columns);
  p.rows = static_cast<int32_t>(dy_rows);
  const int64_t elements = site.outputs[0].elements;
  int64_t blocks = SaturatingMul(int64_t{p.tap_rows.by} * p.tap_columns.by, shape->kernel[0]);
  blocks = elements > 0 ? SaturatingMul(blocks, p.channel_blocks.by) : 0;
  // A part has at least the pixels that its 8 warps begin with.
  const int64_t at_least = std::max<int64_t>(8 / std::max<int64_t>(shape->out[2], 1), 1);
  const PartSums parts(context, elements, blocks, dy_rows, at_least, site.workspace_bytes);
  if (dy_rows >= kMaxCount || SaturatingMul(blocks, parts.count()) >= kMaxCount)
    return Refuse(why, "2^31 rows or more");
  p.part_rows = static_cast<int32_t>(parts.part_length());
  const OwnKernel<DepthwiseGradWeightParameters> kernel(
      context, "depthwise_grad_weight", "DepthwiseGradWeightParameters", "depthwise",
      "DepthwiseGradWeight" + TemplateArguments(FloatType(site.inputs[0].dtype), rows, columns));
  return MakeKernel(
      [p, kernel, parts, blocks](const KernelArgs& args) mutable -> std::string {
        float *dw = args.outputs[0].as<float>(), *workspace = args.workspace.data.as<float>();
        p.dy = args.inputs[0].as<void>();
        p.x = args.inputs[1].as<void>();
        p.to = parts.Target(dw, workspace);
        if (Status status = kernel.Launch(blocks * parts.count(), p); !status.empty()) return status;
        return parts.Add(workspace, dw);
      },
      parts.WorkspaceBytes(), std::to_string(parts.count()) + " parts of the rows");
}

}  // namespace

void RegisterCudaDepthwise(KernelRegistry& registry, const CudaContext& context) {
  const auto add = [&](const std::string& op, const std::string& name, Direction direction) {
    registry.Add(op, {name, [&context, direction](const KernelSite& site, std::string* why) {
                        return Create(context, direction, site, why);
                      }});
  };
  add("Conv", "cuda.depthwise", Direction::kForward);
  add("ConvGradInput", "cuda.depthwise_grad_input", Direction::kInputGradient);
  registry.Add("ConvGradWeight",
               {"cuda.depthwise_grad_weight", [&context](const KernelSite& site, std::string* why) {
                  return CreateGradWeight(context, site, why);
                }});
}

}  // namespace act::cuda
