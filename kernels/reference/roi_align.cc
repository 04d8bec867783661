#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

// A bin has no more samples along an axis. More would be of a region that is no part of an image.
constexpr double kMostSamples = 4096;

struct RoiShape {
  int64_t images = 0, height = 0, width = 0, channels = 0, regions = 0, rows = 0, columns = 0, samples = 0;
  double scale = 1;
  bool half_pixel = true;
};

std::optional<RoiShape> ShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& regions,
                                const TensorView& image, const TensorView& y, std::string* why) {
  const auto no = [why](const char* reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  const std::vector<int64_t> bins = attrs.Ints("bins");
  if (x.dtype != DType::kFloat32 || regions.dtype != DType::kFloat32 || y.dtype != DType::kFloat32 ||
      image.dtype != DType::kInt64)
    return no("float32 and images as int64 only");
  if (x.dims.size() != 4 || regions.dims.size() != 2 || regions.dims[1] != 4 || bins.size() != 2 ||
      image.dims != std::vector<int64_t>{regions.dims[0]} ||
      y.dims != std::vector<int64_t>{regions.dims[0], bins[0], bins[1], x.dims[3]})
    return no("the extents do not fit");
  if (attrs.Int("samples") < 0 || attrs.Int("samples") > static_cast<int64_t>(kMostSamples))
    return no("no such number of samples");
  if (y.elements > 0 && x.elements == 0) return no("an empty image has nothing to pool");
  return RoiShape{.images = x.dims[0],
                  .height = x.dims[1],
                  .width = x.dims[2],
                  .channels = x.dims[3],
                  .regions = regions.dims[0],
                  .rows = bins[0],
                  .columns = bins[1],
                  .samples = attrs.Int("samples"),
                  .scale = attrs.Float("scale", 1),
                  .half_pixel = attrs.Int("half_pixel", 1) != 0};
}

// A region along one axis.
struct Span {
  double start = 0, bin = 0;  // in pixels
  int64_t samples = 0;        // of a bin
};

// Nullopt if there is no sensible number of samples.
std::optional<Span> SpanOf(const RoiShape& s, float from, float to, int64_t bins) {
  const double start = from * s.scale - (s.half_pixel ? .5 : 0), end = to * s.scale - (s.half_pixel ? .5 : 0);
  const double extent = s.half_pixel ? end - start : std::max(end - start, 1.0);
  const double samples =
      s.samples > 0 ? static_cast<double>(s.samples) : std::ceil(extent / static_cast<double>(bins));
  if (!std::isfinite(start) || !std::isfinite(extent) || !(samples <= kMostSamples)) return std::nullopt;
  return Span{start, extent / static_cast<double>(bins), static_cast<int64_t>(std::max(samples, 0.0))};
}

struct Tap {
  int64_t at;
  double weight;
};

// The two pixels around a sample, which are one at the image's edges; none if it lies outside.
struct Taps {
  Tap taps[2];
  int count = 0;
};

Taps TapsAt(double place, int64_t extent) {
  if (!(place >= -1 && place <= static_cast<double>(extent))) return {};
  place = std::max(place, 0.0);
  const auto low = static_cast<int64_t>(place);
  if (low >= extent - 1) return {{{extent - 1, 1}, {}}, 1};
  const double part = place - static_cast<double>(low);
  return {{{low, 1 - part}, {low + 1, part}}, 2};
}

// Calls f(bin, pixel, weight) for each pixel that a sample of a bin mixes. Bins count over all regions.
template <class F>
std::string ForEachPixel(const RoiShape& s, const float* regions, const int64_t* image, const F& f) {
  for (int64_t r = 0; r < s.regions; ++r) {
    const float* box = regions + 4 * r;
    const std::string at = "region " + std::to_string(r);
    if (image[r] < 0 || image[r] >= s.images)
      return at + " is of image " + std::to_string(image[r]) + ", there are " + std::to_string(s.images);
    const auto across = SpanOf(s, box[0], box[2], s.columns), down = SpanOf(s, box[1], box[3], s.rows);
    if (!across || !down)
      return at + " is no part of an image: " + std::to_string(box[0]) + "," + std::to_string(box[1]) +
             " to " + std::to_string(box[2]) + "," + std::to_string(box[3]);
    const double share = 1 / static_cast<double>(std::max<int64_t>(across->samples * down->samples, 1));
    const auto place = [](const Span& span, int64_t bin, int64_t sample) {
      const double part = (static_cast<double>(sample) + .5) / static_cast<double>(span.samples);
      return span.start + span.bin * (static_cast<double>(bin) + part);
    };
    for (int64_t bin = 0; bin < s.rows * s.columns; ++bin)
      for (int64_t i = 0; i < down->samples; ++i) {
        const Taps ys = TapsAt(place(*down, bin / s.columns, i), s.height);
        for (int64_t j = 0; j < across->samples && ys.count > 0; ++j) {
          const Taps xs = TapsAt(place(*across, bin % s.columns, j), s.width);
          for (int a = 0; a < ys.count; ++a)
            for (int b = 0; b < xs.count; ++b)
              f(r * s.rows * s.columns + bin, (image[r] * s.height + ys.taps[a].at) * s.width + xs.taps[b].at,
                ys.taps[a].weight * xs.taps[b].weight * share);
        }
      }
  }
  return "";
}

std::unique_ptr<Kernel> RoiAlign(const KernelSite& site, std::string* why) {
  const auto shape =
      ShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], site.inputs[2], site.outputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* x = args.inputs[0].as<float>();
    float* y = args.outputs[0].as<float>();
    std::fill_n(y, args.outputs[0].elements, 0.0f);
    return ForEachPixel(s, args.inputs[1].as<float>(), args.inputs[2].as<int64_t>(),
                        [&](int64_t bin, int64_t pixel, double weight) {
                          for (int64_t c = 0; c < s.channels; ++c)
                            y[bin * s.channels + c] += static_cast<float>(weight * x[pixel * s.channels + c]);
                        });
  });
}

// dy, regions, image -> dx
std::unique_ptr<Kernel> RoiAlignGrad(const KernelSite& site, std::string* why) {
  const auto shape =
      ShapeOf(site.node->attrs, site.outputs[0], site.inputs[1], site.inputs[2], site.inputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* dy = args.inputs[0].as<float>();
    float* dx = args.outputs[0].as<float>();
    std::fill_n(dx, args.outputs[0].elements, 0.0f);
    return ForEachPixel(s, args.inputs[1].as<float>(), args.inputs[2].as<int64_t>(),
                        [&](int64_t bin, int64_t pixel, double weight) {
                          for (int64_t c = 0; c < s.channels; ++c)
                            dx[pixel * s.channels + c] +=
                                static_cast<float>(weight * dy[bin * s.channels + c]);
                        });
  });
}

}  // namespace

void RegisterReferenceRoiAlign(KernelRegistry& registry) {
  registry.Add("RoiAlign", {"reference.roi_align", RoiAlign});
  registry.Add("RoiAlignGrad", {"reference.roi_align_grad", RoiAlignGrad});
}

}  // namespace act
