// Rows of convolutions, pooling, resizing, batch normalization and losses. Channels last.
#pragma once

#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

// One entry per spatial axis; pads: begins, then ends.
struct WindowRow {
  Ints kernel, strides, dilations, pads;

  size_t axes() const { return kernel.size(); }
  // The position on the padded input's axis, counted from the first element that is not padding.
  int64_t Input(size_t axis, int64_t output, int64_t tap) const {
    return output * strides[axis] + tap * dilations[axis] - pads[axis];
  }
  int64_t Extent(size_t axis, int64_t input) const {
    return (input + pads[axis] + pads[axis + axes()] - dilations[axis] * (kernel[axis] - 1) - 1) /
               strides[axis] +
           1;
  }
  Attributes ToAttrs() const {
    return Attrs({{"kernel_shape", kernel}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}});
  }
  // Calls f(x index without channel, kernel index) for each tap of the output at `o` ([n, spatial..,
  // channel]) that is inside an input of these dims.
  template <class F>
  void ForEachTap(const Ints& x_dims, const Ints& o, F f) const {
    truth::ForEach(kernel, [&](const Ints& k) {
      Ints at{o[0]};
      for (size_t a = 0; a < axes(); ++a) {
        const int64_t i = Input(a, o[a + 1], k[a]);
        if (i < 0 || i >= x_dims[a + 1]) return;
        at.push_back(i);
      }
      f(at, k);
    });
  }
};

inline Ints With(Ints index, int64_t last) {
  index.push_back(last);
  return index;
}
inline Ints Join(const Ints& a, const Ints& b) {
  Ints all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// x [N, S.., C], w [M, C / group, K..] -> [N, O.., M]
inline Tensor Convolve(const Tensor& x, const Tensor& w, const WindowRow& window, int64_t group) {
  Ints dims{x.dim(0)};
  for (size_t a = 0; a < window.axes(); ++a) dims.push_back(window.Extent(a, x.dim(a + 1)));
  dims.push_back(w.dim(0));
  const int64_t per_group = w.dim(0) / group, channels = w.dim(1);
  return truth::Make(dims, [&](const Ints& o) {
    double sum = 0;
    window.ForEachTap(x.dims, o, [&](const Ints& at, const Ints& k) {
      for (int64_t c = 0; c < channels; ++c)
        sum += x.at(With(at, o.back() / per_group * channels + c)) * w.at(Join({o.back(), c}, k));
    });
    return sum;
  });
}

// x [N, S.., C], w [C, M / group, K..] -> [N, O.., M]: each input element spreads the kernel over the output.
inline Tensor ConvolveTransposed(const Tensor& x, const Tensor& w, const WindowRow& window,
                                 const Ints& output_padding, int64_t group) {
  Ints dims{x.dim(0)};
  for (size_t a = 0; a < window.axes(); ++a)
    dims.push_back((x.dim(a + 1) - 1) * window.strides[a] + (window.kernel[a] - 1) * window.dilations[a] + 1 +
                   output_padding[a] - window.pads[a] - window.pads[a + window.axes()]);
  const int64_t per_group = x.dims.back() / group, out_per_group = w.dim(1);
  dims.push_back(out_per_group * group);
  Tensor y(dims);
  truth::ForEach(x.dims, [&](const Ints& i) {
    window.ForEachTap(dims, i, [&](const Ints& at, const Ints& k) {
      for (int64_t m = 0; m < out_per_group; ++m)
        y.at(With(at, i.back() / per_group * out_per_group + m)) += x.at(i) * w.at(Join({i.back(), m}, k));
    });
  });
  return y;
}

inline Tensor AddBias(Tensor y, const Tensors& t) {
  return t.size() < 3 ? y : truth::Map(y, t[2], [](double a, double b) { return a + b; });
}

inline std::vector<OpCase> ConvCases() {
  struct Row {
    const char* name;
    Ints x, w;
    WindowRow window;
    int64_t group = 1;
    bool bias = false;
  };
  const Row rows[] = {
      {"Conv", {2, 5, 4, 3}, {4, 3, 3, 3}, {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, 1, true},
      {"Conv pointwise", {2, 3, 4, 5}, {2, 5, 1, 1}, {{1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"Conv strided", {2, 7, 6, 2}, {3, 2, 3, 2}, {{3, 2}, {2, 3}, {1, 1}, {1, 0, 1, 0}}},
      {"Conv strided, last rows unread", {1, 6, 6, 2}, {2, 2, 3, 3}, {{3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}}},
      {"Conv dilated", {1, 7, 8, 2}, {2, 2, 3, 3}, {{3, 3}, {1, 1}, {2, 3}, {2, 3, 2, 3}}},
      {"Conv padded asymmetrically",
       {1, 4, 5, 2},
       {3, 2, 2, 3},
       {{2, 3}, {1, 2}, {1, 1}, {0, 2, 1, 1}},
       1,
       true},
      {"Conv grouped", {2, 4, 4, 6}, {4, 3, 3, 3}, {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, 2, true},
      {"Conv depthwise", {2, 4, 5, 3}, {3, 1, 3, 3}, {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, 3},
      {"Conv depthwise, two outputs a channel",
       {1, 4, 5, 3},
       {6, 1, 3, 3},
       {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
       3,
       true},
      {"Conv 1d", {2, 9, 3}, {4, 3, 3}, {{3}, {2}, {1}, {1, 1}}, 1, true},
      {"Conv 3d",
       {1, 3, 4, 3, 2},
       {2, 2, 2, 3, 2},
       {{2, 3, 2}, {1, 1, 2}, {1, 1, 1}, {0, 1, 1, 1, 1, 0}},
       1,
       true},
      {"Conv of one pixel", {2, 1, 1, 3}, {2, 3, 3, 3}, {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"Conv of one channel", {1, 4, 4, 1}, {1, 1, 2, 2}, {{2, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}}, 1, true},
  };
  std::vector<OpCase> cases;
  for (const Row& row : rows) {
    Attributes attrs = row.window.ToAttrs();
    attrs.Set("group", row.group);
    OpCase c{row.name,
             {{row.x}, {row.w}},
             One("Conv", attrs),
             [row](const Tensors& t) { return AddBias(Convolve(t[0], t[1], row.window, row.group), t); },
             {0}};
    if (row.bias) c.operands.push_back({{row.w[0]}});
    cases.push_back(c);
  }
  struct TransposedRow {
    const char* name;
    Ints x, w;
    WindowRow window;
    Ints output_padding;
    int64_t group = 1;
    bool bias = false;
  };
  const TransposedRow transposed[] = {
      {"ConvTranspose", {2, 3, 4, 3}, {3, 2, 2, 2}, {{2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}}, {0, 0}, 1, true},
      {"ConvTranspose padded",
       {1, 3, 4, 2},
       {2, 3, 3, 3},
       {{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
       {1, 1},
       1,
       true},
      {"ConvTranspose grouped",
       {1, 3, 3, 4},
       {4, 2, 3, 2},
       {{3, 2}, {1, 2}, {2, 1}, {1, 0, 0, 1}},
       {0, 1},
       2},
      {"ConvTranspose 1d", {2, 5, 2}, {2, 3, 4}, {{4}, {3}, {1}, {1, 0}}, {0}, 1, true},
      {"ConvTranspose 3d",
       {1, 2, 2, 3, 2},
       {2, 1, 2, 2, 2},
       {{2, 2, 2}, {2, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}},
       {0, 0, 0}},
  };
  for (const TransposedRow& row : transposed) {
    Attributes attrs = row.window.ToAttrs();
    attrs.Set("group", row.group);
    attrs.Set("output_padding", row.output_padding);
    OpCase c{row.name,
             {{row.x}, {row.w}},
             [attrs](GraphBuilder& b, const Values& v) {
               return b.ConvTranspose(v[0], v[1], v.size() > 2 ? v[2] : kNoValue, attrs, "tested");
             },
             [row](const Tensors& t) {
               return AddBias(ConvolveTransposed(t[0], t[1], row.window, row.output_padding, row.group), t);
             },
             {0}};
    if (row.bias) c.operands.push_back({{row.w[1] * row.group}});
    cases.push_back(c);
  }
  return cases;
}

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
      {"large window", {1, 20, 20, 1}, {{17, 17}, {2, 2}, {1, 1}, {0, 0, 0, 0}}},  // 289 positions: not u8
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
  add({1, 2, 3, 2, 2}, {1, 4, 5, 3, 2}, "linear", "half_pixel", "");
  add({1, 2, 3, 2, 2}, {1, 4, 6, 4, 2}, "nearest", "asymmetric", "floor");
  return cases;
}

// operands: x [.., C], gamma, beta, running mean, running variance
inline std::vector<OpCase> BatchNormCases() {
  std::vector<OpCase> cases;
  for (const bool frozen : {false, true})
    for (const Ints& dims : std::vector<Ints>{{4, 3}, {2, 3, 4, 5}, {6, 1}, {3, 5, 2}, {2, 1, 1, 3}}) {
      const int64_t c = dims.back();
      cases.push_back(
          {std::string("BatchNorm ") + (frozen ? "frozen" : "training"),
           {{dims}, {{c}, .5, 2}, {{c}}, {{c}, -1, 1, Kind::kBuffer}, {{c}, .5, 2, Kind::kBuffer}},
           // A larger epsilon than usual, so that a mistake in its place shows.
           One("BatchNorm", Attrs({{"epsilon", .1}, {"momentum", .1}, {"frozen", int64_t{frozen}}})),
           [frozen](const Tensors& t) {
             const Tensor& x = t[0];
             const auto channels = x.dims.back();
             const double n = static_cast<double>(truth::Count(x.dims)) / static_cast<double>(channels);
             Tensor mean = t[3], variance = t[4];
             if (!frozen) {
               mean = variance = Tensor({channels});
               truth::ForEach(x.dims, [&](const Ints& i) { mean.at({i.back()}) += x.at(i) / n; });
               truth::ForEach(x.dims, [&](const Ints& i) {
                 const double d = x.at(i) - mean.at({i.back()});
                 variance.at({i.back()}) += d * d / n;
               });
             }
             return truth::Make(x.dims, [&](const Ints& i) {
               const Ints ch{i.back()};
               return (x.at(i) - mean.at(ch)) / std::sqrt(variance.at(ch) + .1) * t[1].at(ch) + t[2].at(ch);
             });
           },
           {0}});
    }
  return cases;
}

inline std::vector<OpCase> LossCases() {
  struct Row {
    const char* name;
    Ints logits;
    std::string reduction;
    int64_t ignore = -100;
    bool weighted = false;
  };
  const Row rows[] = {
      {"mean", {6, 5}, "mean"},
      {"sum", {6, 5}, "sum"},
      {"mean, some ignored", {8, 3}, "mean", 1},
      {"sum, some ignored", {8, 3}, "sum", 1},
      {"mean, weighted", {8, 3}, "mean", -100, true},
      {"mean, weighted, some ignored", {9, 4}, "mean", 2, true},
      {"sum, weighted, some ignored", {9, 4}, "sum", 0, true},
      {"of pixels", {2, 3, 2, 4}, "mean", 3, true},
      {"one class", {3, 1}, "mean"},
  };
  std::vector<OpCase> cases;
  for (const Row& row : rows) {
    Attributes attrs = Attrs({{"reduction", row.reduction}});
    if (row.ignore != -100) attrs.Set("ignore_index", row.ignore);
    const int64_t classes = row.logits.back();
    OpCase c{
        std::string("SoftmaxCrossEntropy ") + row.name,
        {{row.logits},
         {Ints(row.logits.begin(), row.logits.end() - 1), 0, static_cast<double>(classes), Kind::kIndex}},
        [attrs](GraphBuilder& b, const Values& v) -> llvm::Expected<ValueId> {
          return Take(b.Add("SoftmaxCrossEntropy", v, attrs, "tested", 2))[0];
        },
        [row, classes](const Tensors& t) {
          double sum = 0, weights = 0;
          truth::ForEach(t[1].dims, [&](const Ints& i) {
            const auto label = static_cast<int64_t>(t[1].at(i));
            if (label == row.ignore) return;
            double total = 0;
            for (int64_t k = 0; k < classes; ++k) total += std::exp(t[0].at(With(i, k)));
            const double w = t.size() > 2 ? t[2].at({label}) : 1;
            sum += w * (std::log(total) - t[0].at(With(i, label)));
            weights += w;
          });
          Tensor loss;
          loss.data = {row.reduction == "mean" ? sum / weights : sum};
          return loss;
        },
        {0, 1}};
    if (row.weighted) c.operands.push_back({{classes}, .5, 2, Kind::kFixed});
    cases.push_back(c);
  }
  return cases;
}

}  // namespace act::gradient_case
