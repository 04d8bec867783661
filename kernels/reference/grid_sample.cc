#include <algorithm>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/grid_shape.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

// What one point mixes, for each of x's axes.
using PointTaps = std::vector<std::vector<GridTap>>;

template <GridMode::Filter kFilter>
std::vector<GridTap> TapsOf(const GridMode& mode, int64_t extent, float coordinate) {
  GridTaps<kFilter> found;
  FindTaps(mode, extent, coordinate, found);
  std::vector<GridTap> taps(std::begin(found.taps), std::end(found.taps));
  std::erase_if(taps, [](const GridTap& tap) { return tap.at < 0; });
  return taps;
}

PointTaps TapsAt(const GridShape& s, const float* coordinates) {
  PointTaps taps;
  for (int64_t a = 0; a < s.axes(); ++a) {
    const int64_t extent = s.extents[static_cast<size_t>(a)];
    const float coordinate = coordinates[s.axes() - 1 - a];
    switch (s.mode.filter) {
      case GridMode::Filter::kNearest:
        taps.push_back(TapsOf<GridMode::Filter::kNearest>(s.mode, extent, coordinate));
        break;
      case GridMode::Filter::kLinear:
        taps.push_back(TapsOf<GridMode::Filter::kLinear>(s.mode, extent, coordinate));
        break;
      case GridMode::Filter::kCubic:
        taps.push_back(TapsOf<GridMode::Filter::kCubic>(s.mode, extent, coordinate));
        break;
    }
  }
  return taps;
}

// Calls f(pixel, weight) for each pixel that the axes from `a` on mix. The factor of axis `sloped` is the
// slope of its weight, not the weight.
template <class F>
void ForEachPixel(const GridShape& s, const PointTaps& taps, int64_t sloped, int64_t a, int64_t pixel,
                  double weight, const F& f) {
  if (a == s.axes()) return f(pixel, weight);
  for (const GridTap& tap : taps[static_cast<size_t>(a)])
    ForEachPixel(s, taps, sloped, a + 1, pixel * s.extents[static_cast<size_t>(a)] + tap.at,
                 weight * (a == sloped ? tap.slope : tap.weight), f);
}

constexpr int64_t kNone = -1;  // no axis is sloped

// Calls f(point, sample, taps of the point) for each point of the grid; points count over all samples.
template <class F>
void ForEachPoint(const GridShape& s, const float* grid, const F& f) {
  for (int64_t point = 0; point < s.batch * s.points; ++point)
    f(point, point / s.points, TapsAt(s, grid + point * s.axes()));
}

std::unique_ptr<Kernel> GridSample(const KernelSite& site, std::string* why) {
  const auto shape = GridShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], site.outputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* x = args.inputs[0].as<float>();
    float* y = args.outputs[0].as<float>();
    std::vector<double> sums(static_cast<size_t>(s.channels));
    ForEachPoint(s, args.inputs[1].as<float>(), [&](int64_t point, int64_t n, const PointTaps& taps) {
      std::fill(sums.begin(), sums.end(), 0);
      ForEachPixel(s, taps, kNone, 0, n, 1, [&](int64_t pixel, double weight) {
        for (int64_t c = 0; c < s.channels; ++c)
          sums[static_cast<size_t>(c)] += weight * x[pixel * s.channels + c];
      });
      std::copy(sums.begin(), sums.end(), y + point * s.channels);
    });
    return "";
  });
}

// dy, grid -> dx
std::unique_ptr<Kernel> GridSampleGradInput(const KernelSite& site, std::string* why) {
  const auto shape = GridShapeOf(site.node->attrs, site.outputs[0], site.inputs[1], site.inputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* dy = args.inputs[0].as<float>();
    float* dx = args.outputs[0].as<float>();
    std::fill_n(dx, args.outputs[0].elements, 0.0f);
    ForEachPoint(s, args.inputs[1].as<float>(), [&](int64_t point, int64_t n, const PointTaps& taps) {
      ForEachPixel(s, taps, kNone, 0, n, 1, [&](int64_t pixel, double weight) {
        for (int64_t c = 0; c < s.channels; ++c)
          dx[pixel * s.channels + c] += static_cast<float>(weight * dy[point * s.channels + c]);
      });
    });
    return "";
  });
}

// dy, x, grid -> dgrid
std::unique_ptr<Kernel> GridSampleGradGrid(const KernelSite& site, std::string* why) {
  const auto shape = GridShapeOf(site.node->attrs, site.inputs[1], site.inputs[2], site.inputs[0], why);
  if (!shape) return nullptr;
  const TensorView &grid = site.inputs[2], &result = site.outputs[0];
  if (result.dims != grid.dims || result.dtype != grid.dtype)
    return Refuse(why, "the gradient has the grid's extents and type");
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float *dy = args.inputs[0].as<float>(), *x = args.inputs[1].as<float>();
    float* dgrid = args.outputs[0].as<float>();
    ForEachPoint(s, args.inputs[2].as<float>(), [&](int64_t point, int64_t n, const PointTaps& taps) {
      for (int64_t a = 0; a < s.axes(); ++a) {
        double sum = 0;
        ForEachPixel(s, taps, a, 0, n, 1, [&](int64_t pixel, double slope) {
          for (int64_t c = 0; c < s.channels; ++c)
            sum += slope * x[pixel * s.channels + c] * dy[point * s.channels + c];
        });
        dgrid[point * s.axes() + s.axes() - 1 - a] = static_cast<float>(sum);
      }
    });
    return "";
  });
}

}  // namespace

void RegisterReferenceGridSample(KernelRegistry& registry) {
  registry.Add("GridSample", {"reference.grid_sample", GridSample});
  registry.Add("GridSampleGradInput", {"reference.grid_sample_grad_input", GridSampleGradInput});
  registry.Add("GridSampleGradGrid", {"reference.grid_sample_grad_grid", GridSampleGradGrid});
}

}  // namespace act
