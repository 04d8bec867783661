// Rows of Resize, against a matrix per axis that is written out by the words of ONNX's operator.
#pragma once

#include <algorithm>
#include <iterator>

#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

struct ResizeRow {
  Ints from, to, axes;
  std::string mode = "linear", coordinates = "half_pixel", nearest = "round_prefer_floor";
  std::vector<double> scales = {};  // left out: the quotients of the extents
  double a = -.75;
  bool antialias = false, exclude = false;
  std::vector<double> roi = {};

  double Scale(size_t i) const {
    const auto axis = static_cast<size_t>(axes[i]);
    return scales.empty() ? static_cast<double>(to[axis]) / static_cast<double>(from[axis]) : scales[i];
  }
};

// Where position o of the i-th resized axis looks.
inline double Coordinate(const ResizeRow& row, size_t i, int64_t o) {
  const auto axis = static_cast<size_t>(row.axes[i]);
  const double x = static_cast<double>(o), in = static_cast<double>(row.from[axis]),
               out = static_cast<double>(row.to[axis]), scale = row.Scale(i);
  const std::string& mode = row.coordinates;
  if (mode == "align_corners") return out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (mode == "asymmetric") return x / scale;
  if (mode == "tf_half_pixel_for_nn") return (x + .5) / scale;
  if (mode == "pytorch_half_pixel" && out == 1) return 0;
  if (mode == "half_pixel_symmetric") return in / 2 * (1 - out / (scale * in)) + (x + .5) / scale - .5;
  if (mode == "tf_crop_and_resize") {
    const double start = row.roi[i], end = row.roi[i + row.axes.size()];
    return out == 1 ? .5 * (start + end) * (in - 1)
                    : start * (in - 1) + x * (end - start) * (in - 1) / (out - 1);
  }
  return (x + .5) / scale - .5;
}

// The weight of each position of the input in position o of the i-th resized axis.
inline std::vector<double> AxisWeights(const ResizeRow& row, size_t i, int64_t o) {
  const int64_t in = row.from[static_cast<size_t>(row.axes[i])];
  const auto last = static_cast<double>(in - 1);
  std::vector<double> weights(static_cast<size_t>(in), 0);
  const double x = Coordinate(row, i, o);
  if (row.coordinates == "tf_crop_and_resize" && (x < 0 || x > last)) return weights;
  const auto position = [&](double p) -> double& {
    return weights[static_cast<size_t>(std::clamp<double>(p, 0, last))];
  };
  if (row.mode == "nearest") {
    position(row.nearest == "floor"               ? std::floor(x + 1e-9)
             : row.nearest == "ceil"              ? std::ceil(x - 1e-9)
             : row.nearest == "round_prefer_ceil" ? std::floor(x + .5 + 1e-9)
                                                  : std::ceil(x - .5 - 1e-9)) = 1;
    return weights;
  }
  const double stretch = row.antialias ? std::max(1., 1 / row.Scale(i)) : 1, a = row.a;
  const auto filter = [&](double d) {
    d = std::fabs(d) / stretch;
    if (row.mode == "linear") return d < 1 ? 1 - d : 0;
    if (d < 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
  };
  double sum = 0;
  for (int64_t p = -4 * in - 4; p <= 5 * in + 4; ++p) {
    const double weight = filter(static_cast<double>(p) - x);
    if (row.exclude && (p < 0 || p >= in)) continue;
    position(static_cast<double>(p)) += weight;
    sum += weight;
  }
  if (row.exclude || row.antialias)
    for (double& weight : weights) weight /= sum;
  return weights;
}

// One axis after the other.
inline Tensor Resized(Tensor x, const ResizeRow& row) {
  for (size_t i = 0; i < row.axes.size(); ++i) {
    const auto axis = static_cast<size_t>(row.axes[i]);
    Ints dims = x.dims;
    dims[axis] = row.to[axis];
    x = truth::Make(dims, [&](const Ints& o) {
      double sum = 0;
      const std::vector<double> weights = AxisWeights(row, i, o[axis]);
      Ints at = o;
      for (at[axis] = 0; at[axis] < x.dim(axis); ++at[axis])
        sum += weights[static_cast<size_t>(at[axis])] * x.at(at);
      return sum;
    });
  }
  return x;
}

inline OpCase ResizeCase(const ResizeRow& row) {
  Attributes attrs = Attrs({{"mode", row.mode},
                            {"coordinate_mode", row.coordinates},
                            {"axes", row.axes},
                            {"cubic_a", row.a},
                            {"antialias", int64_t{row.antialias}},
                            {"exclude_outside", int64_t{row.exclude}}});
  std::vector<double> scales;
  for (size_t i = 0; i < row.axes.size(); ++i) scales.push_back(row.Scale(i));
  attrs.Set("scales", scales);
  if (row.mode == "nearest") attrs.Set("nearest_mode", row.nearest);
  if (!row.roi.empty()) attrs.Set("roi", row.roi);
  std::string name = "Resize " + row.mode + " " + row.coordinates;
  if (row.mode == "nearest") name += " " + row.nearest;
  if (row.antialias) name += " antialias";
  if (row.exclude) name += " exclude_outside";
  const bool of_samples = row.axes.front() > 0;
  return {name,
          {{row.from}},
          [=](GraphBuilder& b, const Values& v) {
            Dims dims(row.to.begin(), row.to.end());
            if (of_samples) dims[0] = b.type(v[0]).dims[0];
            return b.AddTyped("Resize", {v[0]}, {DType::kFloat32, dims}, attrs, "tested");
          },
          [=](const Tensors& t) { return Resized(t[0], row); },
          of_samples ? std::vector<size_t>{0} : std::vector<size_t>{}};
}

inline std::vector<OpCase> ResizeCases() {
  std::vector<ResizeRow> rows;
  const Ints hw{1, 2};
  for (const char* coordinates :
       {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
    for (const char* mode : {"linear", "cubic"}) {
      rows.push_back({{2, 3, 4, 2}, {2, 6, 8, 2}, hw, mode, coordinates});
      rows.push_back({{1, 5, 6, 3}, {1, 3, 9, 3}, hw, mode, coordinates});
      rows.push_back({{1, 4, 1, 2}, {1, 1, 3, 2}, hw, mode, coordinates});
      // Extents that the scales do not reach: 7.5 and 4.8.
      rows.push_back({{2, 5, 4, 2}, {2, 7, 4, 2}, hw, mode, coordinates, "", {1.5, 1.2}});
      rows.push_back({.from = {1, 7, 5, 2},
                      .to = {1, 3, 8, 2},
                      .axes = hw,
                      .mode = mode,
                      .coordinates = coordinates,
                      .antialias = true});
    }
    for (const char* nearest : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}) {
      rows.push_back({{2, 3, 4, 2}, {2, 6, 8, 2}, hw, "nearest", coordinates, nearest});
      rows.push_back({{1, 5, 6, 3}, {1, 3, 9, 3}, hw, "nearest", coordinates, nearest});
    }
  }
  for (const char* mode : {"linear", "cubic"})
    for (const bool antialias : {false, true})
      for (const bool exclude : {false, true})
        for (const auto& [from, to] :
             std::vector<std::pair<int64_t, int64_t>>{{4, 9}, {9, 4}, {13, 2}, {5, 1}})
          rows.push_back({.from = {2, from, 3},
                          .to = {2, to, 3},
                          .axes = {1},
                          .mode = mode,
                          .a = exclude ? -.5 : -.75,
                          .antialias = antialias,
                          .exclude = exclude});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    rows.push_back({{2, 4, 5, 2}, {2, 3, 8, 2}, hw, mode, "tf_half_pixel_for_nn", "floor"});
    // The second axis looks beyond both ends of the input.
    rows.push_back({.from = {2, 5, 4, 2},
                    .to = {2, 3, 7, 2},
                    .axes = hw,
                    .mode = mode,
                    .coordinates = "tf_crop_and_resize",
                    .roi = {.2, -.3, .9, 1.4}});
    rows.push_back({.from = {5, 2},
                    .to = {1, 2},
                    .axes = {0},
                    .mode = mode,
                    .coordinates = "tf_crop_and_resize",
                    .roi = {.5, .8}});
    // Any axes, also with others between them.
    rows.push_back({{5}, {8}, {0}, mode});
    rows.push_back({{5, 3}, {2, 7}, {0, 1}, mode});
    rows.push_back({{2, 3, 5}, {2, 7, 5}, {1}, mode});
    rows.push_back({{2, 3, 2, 5}, {2, 4, 2, 3}, {1, 3}, mode});
    rows.push_back({{3, 2, 2, 4}, {5, 2, 3, 4}, {0, 2}, mode});
    rows.push_back({{1, 2, 3, 2, 2}, {1, 4, 5, 3, 2}, {1, 2, 3}, mode});
    rows.push_back({{0, 5, 3}, {0, 8, 3}, {1}, mode});
    rows.push_back({{2, 5, 3}, {2, 0, 3}, {1}, mode});
  }
  std::vector<OpCase> cases;
  std::transform(rows.begin(), rows.end(), std::back_inserter(cases), ResizeCase);
  return cases;
}

}  // namespace act::gradient_case
