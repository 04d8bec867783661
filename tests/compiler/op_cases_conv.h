// Rows of convolutions. Channels last.
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
  // Calls f(x index without channel, kernel index) for each tap of the output at `o` ([n,
  // spatial.., channel]) that is inside an input of these dims.
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

// x [N, S.., C], w [C, M / group, K..] -> [N, O.., M]. Each input element spreads the kernel
// over the output.
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

inline Tensor AddBias(const Tensor& y, const Tensors& t) {
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
      {"Conv of no sample", {0, 4, 5, 3}, {2, 3, 3, 3}, {{3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, 1, true},
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

}  // namespace act::gradient_case
