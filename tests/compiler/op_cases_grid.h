// Rows of GridSample, AffineGrid and RoiAlign. The truth extends the image over the whole plane, element by
// element, and weighs all elements near a point; the kernels move coordinates instead.
#pragma once

#include "tests/compiler/op_cases_imported.h"

namespace act::gradient_case {

struct GridRow {
  Ints x, grid;  // channels last
  std::string mode, outside;
  bool align_corners = false;
};

// The element that lies at position p of an axis which goes on without end; -1: a zero.
inline int64_t Extended(const GridRow& row, int64_t p, int64_t extent) {
  if (row.outside == "zeros") return p < 0 || p >= extent ? -1 : p;
  if (row.outside == "border" || (row.align_corners && extent == 1))
    return std::clamp<int64_t>(p, 0, extent - 1);
  while (p < 0 || p >= extent) {
    if (p < 0)
      p = row.align_corners ? -p : -1 - p;
    else
      p = (row.align_corners ? 2 * extent - 2 : 2 * extent - 1) - p;
  }
  return p;
}

// The weight of an element at distance d.
inline double GridWeight(const std::string& mode, double d) {
  if (mode == "nearest") return std::fabs(d) < .5;
  d = std::fabs(d);
  if (mode == "linear") return std::max(0.0, 1 - d);
  const double a = -.75;
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

inline Tensor GridSampled(const Tensor& x, const Tensor& grid, const GridRow& row) {
  const size_t axes = x.rank() - 2;
  Ints to(grid.dims.begin(), grid.dims.end() - 1);
  to.push_back(x.dims.back());
  return truth::Make(to, [&](const Ints& i) {
    Ints near;  // the element at or before the point, on each axis
    std::vector<double> place;
    for (size_t a = 0; a < axes; ++a) {
      Ints at(i.begin(), i.end() - 1);
      at.push_back(static_cast<int64_t>(axes - 1 - a));
      const double g = grid.at(at), size = static_cast<double>(x.dim(a + 1));
      place.push_back(row.align_corners ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2);
      near.push_back(static_cast<int64_t>(std::floor(place.back())));
    }
    double sum = 0;
    truth::ForEach(Ints(axes, 4), [&](const Ints& k) {
      double weight = 1;
      Ints at{i[0]};
      for (size_t a = 0; a < axes; ++a) {
        const int64_t p = near[a] - 1 + k[a];
        weight *= GridWeight(row.mode, place[a] - static_cast<double>(p));
        at.push_back(Extended(row, p, x.dim(a + 1)));
        if (at.back() < 0) weight = 0;
        at.back() = std::max<int64_t>(at.back(), 0);
      }
      at.push_back(i.back());
      if (weight != 0) sum += weight * x.at(at);
    });
    return sum;
  });
}

inline OpCase GridCase(const GridRow& row) {
  return {"GridSample " + row.mode + " " + row.outside + (row.align_corners ? " corners" : ""),
          {{row.x}, {row.grid, -1.9, 1.9}},
          One("GridSample", Attrs({{"mode", row.mode},
                                   {"outside", row.outside},
                                   {"align_corners", int64_t{row.align_corners}}})),
          [row](const Tensors& t) { return GridSampled(t[0], t[1], row); },
          {0, 1}};
}

// theta [N, axes, axes + 1] times the place of each pixel.
inline OpCase AffineGridCase(const Ints& size, bool align_corners) {
  const size_t axes = size.size() - 2;
  const auto k = static_cast<int64_t>(axes);
  return {"AffineGrid",
          {{{size[0], k, k + 1}}},
          Imported("AffineGrid", {testing::Attr("align_corners", int64_t{align_corners})}, {size}),
          [=](const Tensors& t) {
            Ints to{size[0]};
            to.insert(to.end(), size.begin() + 2, size.end());
            to.push_back(k);
            return truth::Make(to, [&](const Ints& i) {
              double sum = t[0].at({i[0], i.back(), k});
              for (size_t a = 0; a < axes; ++a) {
                const auto p = static_cast<double>(i[a + 1]), extent = static_cast<double>(size[a + 2]);
                const double place =
                    align_corners ? (extent == 1 ? -1 : 2 * p / (extent - 1) - 1) : (2 * p + 1) / extent - 1;
                sum += t[0].at({i[0], i.back(), k - 1 - static_cast<int64_t>(a)}) * place;
              }
              return sum;
            });
          }};
}

// A bin is the mean over its samples, and a sample the sum over all pixels of a hat around each. x has its
// channels last; regions are of the first image or of the second.
inline OpCase RoiCase(int64_t samples, bool half_pixel) {
  const Ints dims{2, 4, 5, 3};
  return {"RoiAlign",
          {{dims}, {{3, 4}, 0, 4, Kind::kFixed}, {{3}, 0, 2, Kind::kIndex}},
          One("RoiAlign", Attrs({{"bins", Ints{2, 3}},
                                 {"samples", samples},
                                 {"scale", .75},
                                 {"half_pixel", int64_t{half_pixel}}})),
          [=](const Tensors& t) {
            return truth::Make({3, 2, 3, 3}, [&](const Ints& i) {
              Ints count(2);
              double start[2], bin[2];
              for (int64_t a = 0; a < 2; ++a) {  // y, then x
                const double from = t[1].at({i[0], 1 - a}) * .75, to = t[1].at({i[0], 3 - a}) * .75;
                const double extent = half_pixel ? to - from : std::max(to - from, 1.0);
                const auto k = static_cast<size_t>(a);
                start[k] = from - (half_pixel ? .5 : 0);
                bin[k] = extent / (a == 0 ? 2 : 3);
                count[k] = samples > 0 ? samples : std::max<int64_t>(0, std::llround(std::ceil(bin[k])));
              }
              const auto hat = [&](size_t axis, int64_t b, int64_t sample, int64_t pixel, int64_t extent) {
                const double part = (static_cast<double>(sample) + .5) / static_cast<double>(count[axis]);
                const double place = start[axis] + bin[axis] * (static_cast<double>(b) + part);
                if (place < -1 || place > static_cast<double>(extent)) return 0.0;
                const double inside = std::clamp(place, 0.0, static_cast<double>(extent - 1));
                return std::max(0.0, 1 - std::fabs(inside - static_cast<double>(pixel)));
              };
              double sum = 0;
              truth::ForEach({count[0], count[1], dims[1], dims[2]}, [&](const Ints& k) {
                sum += hat(0, i[1], k[0], k[2], dims[1]) * hat(1, i[2], k[1], k[3], dims[2]) *
                       t[0].at({static_cast<int64_t>(t[2].at({i[0]})), k[2], k[3], i[3]});
              });
              return sum / static_cast<double>(std::max<int64_t>(1, count[0] * count[1]));
            });
          }};
}

inline std::vector<OpCase> GridCases() {
  std::vector<OpCase> cases;
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* outside : {"zeros", "border", "reflection"})
      for (const bool align : {false, true}) {
        cases.push_back(GridCase({{2, 5, 4, 3}, {2, 3, 2, 2}, mode, outside, align}));
        cases.push_back(GridCase({{2, 6, 1}, {2, 4, 1}, mode, outside, align}));
        cases.push_back(GridCase({{1, 3, 4, 2, 2}, {1, 2, 2, 1, 3}, mode, outside, align}));
        cases.push_back(GridCase({{1, 1, 3, 2}, {1, 2, 2, 2}, mode, outside, align}));
      }
  for (const int64_t samples : {0, 1, 3})
    for (const bool half_pixel : {false, true}) cases.push_back(RoiCase(samples, half_pixel));
  cases.push_back(GridCase({{0, 3, 4, 2}, {0, 2, 2, 2}, "linear", "zeros"}));
  cases.push_back(GridCase({{2, 3, 4, 2}, {2, 0, 2, 2}, "linear", "zeros"}));
  for (const bool align : {false, true})
    for (const Ints& size : {Ints{2, 3, 4, 5}, Ints{1, 2, 3, 1, 2}, Ints{1, 1, 1, 1}})
      cases.push_back(AffineGridCase(size, align));
  return cases;
}

}  // namespace act::gradient_case
