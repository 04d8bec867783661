// Resizes as test cases.
#pragma once

#include "tests/unit/kernel_testing.h"

namespace act {

inline OpCase Resize(const std::vector<int64_t>& in, const std::vector<int64_t>& out,
                     const std::vector<double>& scales, const std::string& mode,
                     const std::string& coordinates, const std::string& nearest = "round_prefer_floor") {
  OpCase c{"Resize", {}, {Random(in, 1)}, {Empty(out)}, {}, {}};
  std::vector<int64_t> axes;  // the spatial ones of channels-last images
  for (size_t a = 0; a < scales.size(); ++a) axes.push_back(static_cast<int64_t>(a) + 1);
  c.attrs.Set("axes", axes);
  c.attrs.Set("scales", scales);
  c.attrs.Set("mode", mode);
  c.attrs.Set("coordinate_mode", coordinates);
  c.attrs.Set("nearest_mode", nearest);
  return c;
}

inline OpCase Grad(const OpCase& forward) {
  OpCase c = forward;
  c.op = "ResizeGrad";
  c.inputs = {Random(forward.outputs[0].dims, 2)};
  c.outputs = {Empty(forward.inputs[0].dims)};
  return c;
}

// All modes and coordinates, and axes anywhere, by name.
inline std::vector<std::pair<std::string, OpCase>> ResizeCases() {
  using Ints = std::vector<int64_t>;
  std::vector<std::pair<std::string, OpCase>> cases;
  for (const std::string mode : {"nearest", "linear", "cubic"})
    for (const std::string coordinates :
         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"})
      for (const int64_t antialias : {0, 1})
        for (OpCase c : {Resize({2, 3, 4, 5}, {2, 6, 8, 5}, {2, 2}, mode, coordinates),
                         Resize({1, 7, 5, 3}, {1, 4, 9, 3}, {0.6, 1.9}, mode, coordinates),
                         Resize({2, 6, 2}, {2, 1, 2}, {0.2}, mode, coordinates),
                         Resize({1, 2, 3, 2, 2}, {1, 3, 3, 5, 2}, {1.5, 1, 2.5}, mode, coordinates)}) {
          c.attrs.Set("antialias", antialias);
          cases.emplace_back(mode + " " + coordinates, c);
        }
  // Axes that are not resized may lie anywhere.
  for (const auto& [in, out, axes] :
       std::vector<std::tuple<Ints, Ints, Ints>>{{{7}, {4}, {0}},
                                                 {{3, 5}, {6, 2}, {0, 1}},
                                                 {{4, 3, 5, 2}, {6, 3, 4, 2}, {0, 2}},
                                                 {{2, 3, 2, 5}, {2, 6, 2, 8}, {1, 3}},
                                                 {{3, 2, 3, 2, 3}, {4, 2, 5, 3, 3}, {0, 2, 3}}}) {
    std::vector<double> scales;
    for (const int64_t a : axes)
      scales.push_back(static_cast<double>(out[static_cast<size_t>(a)]) /
                       static_cast<double>(in[static_cast<size_t>(a)]));
    OpCase c = Resize(in, out, scales, "cubic", "half_pixel");
    c.attrs.Set("axes", axes);
    cases.emplace_back("any axes", c);
  }
  return cases;
}

// Many terms, as a filter for 1 of 64 elements mixes 256, and many pixels.
inline std::vector<OpCase> LargeResizeCases() {
  OpCase terms = Resize({1, 256, 128, 3}, {1, 4, 2, 3}, {4. / 256, 2. / 128}, "cubic", "half_pixel");
  terms.attrs.Set("antialias", int64_t{1});
  return {terms, Resize({2, 20, 30, 16}, {2, 40, 45, 16}, {2, 1.5}, "linear", "half_pixel")};
}

}  // namespace act
