// Rows of pooling. Channels last.
#pragma once

#include "tests/compiler/op_cases_conv.h"

namespace act::gradient_case {

// The extents on which ONNX and PyTorch agree: rounded up in ceil mode, unless the last window
// would start in the padding after the input.
inline Ints PooledDims(const Tensor& x, const WindowRow& w, bool ceil_mode) {
  Ints dims{x.dim(0)};
  for (size_t a = 0; a < w.axes(); ++a) {
    const int64_t room =
        x.dim(a + 1) + w.pads[a] + w.pads[a + w.axes()] - w.dilations[a] * (w.kernel[a] - 1) - 1;
    int64_t extent = room < 0 ? 0 : room / w.strides[a] + 1;
    const bool rest = room < 0 || room % w.strides[a] != 0;
    if (ceil_mode && rest && extent * w.strides[a] < x.dim(a + 1) + w.pads[a]) ++extent;
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
    double taps = 0;  // taps inside input and padding; in ceil mode a window may extend past both
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
      {"ceil, a window larger than the input", {2, 2, 5, 3}, {{3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}}, true},
      {"1d", {2, 9, 3}, {{4}, {3}, {1}, {1, 1}}},
      {"3d", {1, 4, 3, 4, 2}, {{2, 2, 3}, {2, 1, 1}, {1, 1, 1}, {0, 1, 1, 0, 0, 1}}},
      {"no sample", {0, 6, 5, 3}, {{2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}}},
      // 289 positions do not fit u8.
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

}  // namespace act::gradient_case
