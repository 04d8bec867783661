#include "kernels/site/resize_shape.h"

#include <algorithm>
#include <cmath>

#include "kernels/site/strided.h"

namespace act {
namespace {

// What all axes share: attributes of the operator.
struct Resampling {
  std::string mode, coordinates, nearest;
  double cubic_a = -.75;
  bool antialias = false, exclude_outside = false;
};

struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1;           // output over input as the model gives it
  double start = 0, end = 1;  // the part of the input that is shown (tf_crop_and_resize)
};

// The input coordinate for output o, by ONNX's Resize. Computed in float32, as the frameworks do:
// if o / scale is an integer in exact arithmetic, it must not fall just below it.
float Coordinate(const std::string& mode, int64_t o, const Axis& axis) {
  const auto x = static_cast<float>(o), scale = static_cast<float>(axis.scale);
  const auto in = static_cast<float>(axis.in), out = static_cast<float>(axis.out);
  if (mode == "align_corners") return axis.out == 1 ? 0.0f : x * (in - 1) / (out - 1);
  if (mode == "asymmetric") return x / scale;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5f) / scale;
  if (mode == "tf_crop_and_resize") {
    // In double first: the end of an input that is shown whole must not lie outside of it.
    const double last = static_cast<double>(axis.in - 1);
    const double at = axis.out == 1 ? .5 * (axis.start + axis.end)
                                    : axis.start + static_cast<double>(o) * (axis.end - axis.start) /
                                                       static_cast<double>(axis.out - 1);
    return static_cast<float>(at * last);
  }
  if (mode == "pytorch_half_pixel" && axis.out == 1) return 0.0f;
  // The output shows the middle of the input, where its extent was rounded.
  const float offset = mode == "half_pixel_symmetric" ? in / 2 * (1 - out / (in * scale)) : 0.0f;
  return offset + (x + 0.5f) / scale - 0.5f;
}

float Nearest(const std::string& mode, float x) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5f);
  return std::ceil(x - 0.5f);
}

// The weight of an element at distance d, where elements are 1 apart. R. Keys, Cubic convolution
// interpolation for digital image processing, 1981, equation (4).
double Filter(const Resampling& r, double d) {
  d = std::fabs(d);
  if (r.mode == "linear") return std::max(0.0, 1 - d);
  const double a = r.cubic_a;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? a * (((d - 5) * d + 8) * d - 4) : 0;
}

// Adds the row that mixes what lies around coordinate x.
void AddFiltered(const Resampling& r, const Axis& axis, float x, WeightedRows& rows) {
  // A filter that is to hide detail that the output is too small for spans more elements.
  const double shrink = r.antialias ? std::min(axis.scale, 1.0) : 1;
  const double reach = (r.mode == "linear" ? 1 : 2) / shrink, at = x;
  const auto first = static_cast<int64_t>(std::floor(at - reach)) + 1,
             last = static_cast<int64_t>(std::ceil(at + reach)) - 1;
  double inside = 0, all = 0;
  for (int64_t i = first; i <= last; ++i) {
    const double weight = Filter(r, (static_cast<double>(i) - at) * shrink);
    all += weight;
    if (i >= 0 && i < axis.in) inside += weight;
  }
  const bool exclude = r.exclude_outside && inside != 0;
  const double total = exclude ? inside : r.antialias ? all : 1;
  // Elements outside of the input are those at its ends, so several terms may be one.
  WeightedRows::Term term{-1, 0};
  double sum = 0;
  const auto add = [&] {
    term.weight = static_cast<float>(sum / total);
    if (term.at >= 0 && term.weight != 0) rows.terms.push_back(term);
  };
  for (int64_t i = first; i <= last; ++i) {
    const int64_t element = std::clamp<int64_t>(i, 0, axis.in - 1);
    if (exclude && element != i) continue;
    if (element != term.at) {
      add();
      term.at = element;
      sum = 0;
    }
    sum += Filter(r, (static_cast<double>(i) - at) * shrink);
  }
  add();
}

WeightedRows RowsOf(const Resampling& r, const Axis& axis) {
  WeightedRows rows{.columns = axis.in};
  const auto last = static_cast<float>(axis.in - 1);
  for (int64_t o = 0; o < axis.out; ++o, rows.EndRow()) {
    const float x = Coordinate(r.coordinates, o, axis);
    // What lies outside of the input is not shown.
    if (r.coordinates == "tf_crop_and_resize" && !(x >= 0 && x <= last)) continue;
    if (r.mode == "nearest") {
      const float at = std::clamp(Nearest(r.nearest, x), 0.0f, last);
      rows.terms.push_back({std::min(static_cast<int64_t>(at), axis.in - 1), 1});
    } else {
      AddFiltered(r, axis, x, rows);
    }
  }
  return rows;
}

bool OneOf(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return word == w; });
}

}  // namespace

std::optional<ResizeShape> ResizeShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                         std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  const Resampling r{.mode = attrs.String("mode", "nearest"),
                     .coordinates = attrs.String("coordinate_mode", "half_pixel"),
                     .nearest = attrs.String("nearest_mode", "round_prefer_floor"),
                     .cubic_a = attrs.Float("cubic_a", -.75),
                     .antialias = attrs.Int("antialias") != 0,
                     .exclude_outside = attrs.Int("exclude_outside") != 0};
  if (!OneOf(r.mode, {"nearest", "linear", "cubic"})) return no("no mode '" + r.mode + "'");
  if (!OneOf(r.coordinates, {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                             "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"}))
    return no("no coordinate_mode '" + r.coordinates + "'");
  if (!OneOf(r.nearest, {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}))
    return no("no nearest_mode '" + r.nearest + "'");
  if (x.dtype != DType::kFloat32 || y.dtype != DType::kFloat32) return no("float32 only");

  const std::vector<int64_t> resized = attrs.Ints("axes");
  const std::vector<double> scales = attrs.Floats("scales"),
                            roi = attrs.Floats("roi", std::vector<double>(2 * resized.size(), 0));
  const auto rank = static_cast<int64_t>(x.dims.size());
  const std::string what = DimsText(x.dims) + " to " + DimsText(y.dims);
  if (resized.empty() || scales.size() != resized.size() || roi.size() != 2 * resized.size() ||
      y.dims.size() != x.dims.size() || resized.front() < 0 || resized.back() >= rank)
    return no("no resize of " + std::to_string(resized.size()) + " axes takes " + what);
  ResizeShape s;
  if (y.elements == 0) {
    s.batch = 0;
    return s;
  }
  if (x.elements == 0) return no("an empty tensor cannot be enlarged");
  size_t next = 0;  // of the axes that are resized
  for (int64_t a = 0; a < rank; ++a) {
    const Axis axis{.in = x.dims[static_cast<size_t>(a)],
                    .out = y.dims[static_cast<size_t>(a)],
                    .scale = next < scales.size() ? scales[next] : 1,
                    .start = next < scales.size() ? roi[next] : 0,
                    .end = next < scales.size() ? roi[next + scales.size()] : 1};
    if (next == resized.size() || a != resized[next]) {
      if (axis.in != axis.out) return no("no resize of other axes takes " + what);
      if (next == 0)
        s.batch *= axis.in;
      else if (next == resized.size())
        s.channels *= axis.in;
      else
        s.axes.push_back(Identity(axis.in));
      continue;
    }
    // Rounded to an integer, and computed in float32. This bounds the number of terms too.
    const double in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
    if (!(axis.scale * in >= .5 - 1e-6) || !(std::fabs(out - axis.scale * in) <= 1 + 1e-6 * out))
      return no("scales do not take " + what);
    s.axes.push_back(RowsOf(r, axis));
    ++next;
  }
  if (next != resized.size()) return no("axes must ascend");
  return s;
}

}  // namespace act
