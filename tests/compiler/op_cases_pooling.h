// Rows of pooling and resizing. Channels last.
#pragma once

#include "tests/compiler/op_cases_conv.h"

namespace act::gradient_case {

// The extents that ONNX and PyTorch agree on: rounded up in ceil mode, unless the last window would start in
// the padding behind the input.
inline Ints PooledDims(const Tensor& x, const WindowRow& w, bool ceil_mode) {
  Ints dims{x.dim(0)};
  for (size_t a = 0; a < w.axes(); ++a) {
    const int64_t room =
        x.dim(a + 1) + w.pads[a] + w.pads[a + w.axes()] - w.dilations[a] * (w.kernel[a] - 1) - 1;
    int64_t extent = room / w.strides[a] + 1;
    if (ceil_mode && room % w.strides[a] != 0 && extent * w.strides[a] < x.dim(a + 1) + w.pads[a]) ++extent;
    dims.push_back(extent);
  }
  dims.push_back(x.dims.back());
  return dims;
}

inline Tensor MaxPooled(const Tensor& x, const WindowRow& w, bool ceil_mode) {
  return truth::Make(PooledDims(x, w, ceil_mode), [&](const Ints& o) {
    double best = -INFINITY;
    w.ForEachTap(x.dims, o,
                 [&](const Ints& at, const Ints&) { best = std::max(best, x.at(With(at, o.back()))); });
    return best;
  });
}

inline Tensor AveragePooled(const Tensor& x, const WindowRow& w, bool ceil_mode, bool include_pad) {
  return truth::Make(PooledDims(x, w, ceil_mode), [&](const Ints& o) {
    double sum = 0, inside = 0;
    w.ForEachTap(x.dims, o, [&](const Ints& at, const Ints&) {
      sum += x.at(With(at, o.back()));
      inside += 1;
    });
    if (!include_pad) return sum / inside;
    double taps = 0;  // those inside input and padding; ceil mode may look beyond both
    truth::ForEach(w.kernel, [&](const Ints& k) {
      bool in = true;
      for (size_t a = 0; a < w.axes(); ++a)
        in &= w.Input(a, o[a + 1], k[a]) < x.dim(a + 1) + w.pads[a + w.axes()];
      taps += in;
    });
    return sum / taps;
  });
}

inline std::vector<OpCase> PoolCases() {
  struct Row {
    const char* name;
    Ints x;
    WindowRow window;
    bool ceil_mode = false;
  };
  const Row rows[] = {
      {"2x2", {2, 4, 6, 3}, {{2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}}},
      {"3x3 overlapping, padded", {2, 7, 6, 3}, {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}}},
      {"padded asymmetrically", {1, 5, 6, 2}, {{2, 3}, {1, 2}, {1, 1}, {1, 0, 0, 2}}},
      {"ceil", {2, 6, 8, 2}, {{3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}}, true},
      {"ceil, padded", {1, 6, 5, 2}, {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}}, true},
      {"ceil, last window dropped", {1, 3, 3, 1}, {{1, 2}, {2, 2}, {1, 1}, {0, 1, 0, 1}}, true},
      {"1d", {2, 9, 3}, {{4}, {3}, {1}, {1, 1}}},
      {"3d", {1, 4, 3, 4, 2}, {{2, 2, 3}, {2, 1, 1}, {1, 1, 1}, {0, 1, 1, 0, 0, 1}}},
      {"no sample", {0, 6, 5, 3}, {{2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}}},
      // 289 positions: not u8.
      {"large window", {1, 20, 20, 1}, {{17, 17}, {2, 2}, {1, 1}, {0, 0, 0, 0}}},
  };
  std::vector<OpCase> cases;
  for (const Row& row : rows) {
    Attributes attrs = row.window.ToAttrs();
    if (row.ceil_mode) attrs.Set("ceil_mode", int64_t{1});
    const auto max_pool = [attrs](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
      auto out = b.Add("MaxPool", {v[0]}, attrs, "tested", 2);
      if (!out) return out.takeError();
      return out->front();
    };
    cases.push_back({std::string("MaxPool ") + row.name,
                     {{row.x}},
                     max_pool,
                     [row](const Tensors& t) { return MaxPooled(t[0], row.window, row.ceil_mode); },
                     {0}});
    for (const bool include_pad : {false, true}) {
      Attributes average = attrs;
      average.Set("count_include_pad", int64_t{include_pad});
      cases.push_back(
          {std::string("AveragePool ") + row.name + (include_pad ? ", counts padding" : ""),
           {{row.x}},
           One("AveragePool", average),
           [=](const Tensors& t) { return AveragePooled(t[0], row.window, row.ceil_mode, include_pad); },
           {0}});
    }
  }
  const WindowRow dilated{{2, 2}, {1, 1}, {2, 3}, {1, 1, 1, 1}};
  cases.push_back({"MaxPool dilated",
                   {{{2, 5, 6, 2}}},
                   [dilated](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
                     return Take(b.Add("MaxPool", {v[0]}, dilated.ToAttrs(), "tested", 2))[0];
                   },
                   [dilated](const Tensors& t) { return MaxPooled(t[0], dilated, false); },
                   {0}});
  return cases;
}

// ONNX's Resize, on one axis: where the output position o looks in an input of extent `in`.
inline double Coordinate(const std::string& mode, int64_t o, int64_t in, int64_t out) {
  const double x = static_cast<double>(o), scale = static_cast<double>(out) / static_cast<double>(in);
  if (mode == "align_corners")
    return out == 1 ? 0 : x * static_cast<double>(in - 1) / static_cast<double>(out - 1);
  if (mode == "asymmetric") return x / scale;
  if (mode == "pytorch_half_pixel" && out == 1) return 0;
  return (x + .5) / scale - .5;
}

inline Tensor Resized(const Tensor& x, const Ints& to, const std::string& mode,
                      const std::string& coordinates, const std::string& nearest) {
  Tensor y(to);
  const size_t axes = to.size() - 2;
  truth::ForEach(to, [&](const Ints& o) {
    // Linear: 2^axes corners, each with the product of its distances.
    for (size_t corner = 0; corner < size_t{1} << axes; ++corner) {
      double weight = 1;
      Ints at = o;
      for (size_t a = 0; a < axes; ++a) {
        const int64_t last = x.dim(a + 1) - 1;
        double c = Coordinate(coordinates, o[a + 1], x.dim(a + 1), to[a + 1]);
        if (mode == "nearest") {
          c = nearest == "floor"               ? std::floor(c + 1e-9)
              : nearest == "ceil"              ? std::ceil(c - 1e-9)
              : nearest == "round_prefer_ceil" ? std::floor(c + .5 + 1e-9)
                                               : std::ceil(c - .5 - 1e-9);
        }
        c = std::clamp<double>(c, 0, static_cast<double>(last));
        const double low = std::floor(c), t = c - low;
        const bool high = (corner >> a & 1) != 0;
        at[a + 1] = std::min(static_cast<int64_t>(low) + high, last);
        weight *= high ? t : 1 - t;
      }
      if (weight != 0) y.at(o) += weight * x.at(at);
    }
  });
  return y;
}

inline std::vector<OpCase> ResizeCases() {
  std::vector<OpCase> cases;
  const auto add = [&cases](const Ints& from, const Ints& to, const std::string& mode,
                            const std::string& coordinates, const std::string& nearest) {
    std::vector<double> scales;
    for (size_t a = 1; a + 1 < from.size(); ++a)
      scales.push_back(static_cast<double>(to[a]) / static_cast<double>(from[a]));
    const Attributes attrs = Attrs(
        {{"mode", mode}, {"coordinate_mode", coordinates}, {"nearest_mode", nearest}, {"scales", scales}});
    cases.push_back({"Resize " + mode + " " + coordinates + " " + nearest,
                     {{from}},
                     [=](GraphBuilder& b, const Values& v) {
                       Dims dims(to.begin(), to.end());
                       dims[0] = b.type(v[0]).dims[0];
                       return b.AddTyped("Resize", {v[0]}, {DType::kFloat32, dims}, attrs, "tested");
                     },
                     [=](const Tensors& t) { return Resized(t[0], to, mode, coordinates, nearest); },
                     {0}});
  };
  for (const char* coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
    add({2, 3, 4, 2}, {2, 6, 8, 2}, "linear", coordinates, "");
    add({1, 5, 6, 3}, {1, 3, 9, 3}, "linear", coordinates, "");
    add({1, 4, 1, 2}, {1, 1, 3, 2}, "linear", coordinates, "");
    for (const char* nearest : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}) {
      add({2, 3, 4, 2}, {2, 6, 8, 2}, "nearest", coordinates, nearest);
      add({1, 5, 6, 3}, {1, 3, 9, 3}, "nearest", coordinates, nearest);
    }
  }
  add({2, 5, 3}, {2, 8, 3}, "linear", "half_pixel", "");
  add({0, 5, 3}, {0, 8, 3}, "linear", "half_pixel", "");
  add({1, 2, 3, 2, 2}, {1, 4, 5, 3, 2}, "linear", "half_pixel", "");
  add({1, 2, 3, 2, 2}, {1, 4, 6, 4, 2}, "nearest", "asymmetric", "floor");
  return cases;
}

}  // namespace act::gradient_case
