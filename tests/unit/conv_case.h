// A convolution, and its three operators as test cases.
#pragma once

#include "tests/unit/kernel_testing.h"

namespace act {

struct ConvCase {
  std::vector<int64_t> in;  // [N, S.., C]
  int64_t out_channels;
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides, dilations, pads;
  int64_t group = 1;

  std::vector<int64_t> OutDims() const {
    std::vector<int64_t> out{in[0]};
    for (size_t a = 0; a < kernel.size(); ++a)
      out.push_back((in[1 + a] + pads[a] + pads[kernel.size() + a] - dilations[a] * (kernel[a] - 1) - 1) /
                        strides[a] +
                    1);
    out.push_back(out_channels);
    return out;
  }
  std::vector<int64_t> WeightDims() const {
    std::vector<int64_t> w{out_channels, in.back() / group};
    w.insert(w.end(), kernel.begin(), kernel.end());
    return w;
  }
  Attributes Attrs() const {
    Attributes a;
    a.Set("strides", strides);
    a.Set("dilations", dilations);
    a.Set("pads", pads);
    a.Set("group", group);
    return a;
  }
  OpCase Forward(bool bias) const {
    OpCase c{"Conv", Attrs(), {Random(in, 1), Random(WeightDims(), 2)}, {Empty(OutDims())}, {}, {}};
    if (bias) c.inputs.push_back(Random({out_channels}, 3));
    return c;
  }
  OpCase GradInput() const {
    return {"ConvGradInput", Attrs(), {Random(OutDims(), 4), Random(WeightDims(), 2)}, {Empty(in)}, {}, {}};
  }
  OpCase GradWeight() const {
    return {"ConvGradWeight", Attrs(), {Random(OutDims(), 4), Random(in, 1)}, {Empty(WeightDims())}, {}, {}};
  }
};

// Of all kinds, by name.
inline const std::vector<std::pair<std::string, ConvCase>>& ConvCases() {
  static const std::vector<std::pair<std::string, ConvCase>> cases = {
      {"plain 3x3", {{2, 9, 7, 16}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {"pointwise", {{2, 5, 5, 48}, 24, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"strided pointwise", {{2, 8, 8, 32}, 64, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}}},
      {"stem", {{2, 23, 23, 3}, 16, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}}},
      {"strided 3x3", {{3, 8, 8, 16}, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}}},
      {"odd channels", {{1, 6, 5, 7}, 5, {3, 2}, {1, 2}, {1, 1}, {1, 0, 1, 1}}},
      {"asymmetric pads", {{2, 7, 7, 8}, 8, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}}},
      {"dilated", {{2, 11, 11, 16}, 16, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}}},
      {"grouped", {{2, 6, 6, 24}, 12, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 3}},
      {"depthwise", {{2, 9, 9, 20}, 20, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 20}},
      {"strided depthwise", {{2, 9, 9, 32}, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 32}},
      {"depthwise 7x7", {{3, 10, 11, 40}, 40, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}, 40}},
      {"dilated depthwise", {{2, 9, 12, 18}, 18, {3, 2}, {1, 2}, {2, 3}, {2, 1, 2, 0}, 18}},
      {"wide depthwise", {{2, 4, 13, 5}, 5, {2, 9}, {3, 1}, {1, 1}, {0, 8, 1, 0}, 5}},
      {"depthwise of one axis", {{3, 17, 33}, 33, {4}, {2}, {1}, {1, 2}, 33}},
      {"depthwise of two", {{1, 6, 6, 4}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 4}},
      // The one window along the first axis reads the pad alone.
      {"depthwise beside the image",
       {{2, 1, 5, 6, 3}, 3, {1, 3, 2}, {2, 1, 1}, {1, 1, 1}, {1, 1, 0, 0, 1, 1}, 3}},
      {"one axis", {{2, 19, 12}, 20, {5}, {2}, {1}, {2, 1}}},
      {"three axes", {{2, 5, 6, 7, 4}, 6, {3, 1, 3}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1, 1, 0, 1}}},
      // Kernels of oneDNN make gradients of these weights wrong, or write where they should not.
      {"strided pointwise of one channel", {{1, 2, 33, 1}, 8, {1, 1}, {2, 1}, {1, 1}, {0, 0, 0, 0}}},
      {"dilated rows of few channels", {{1, 5, 33, 5}, 5, {2, 1}, {1, 1}, {2, 1}, {0, 0, 0, 0}, 5}},
      {"narrower than a stride", {{2, 4, 1, 16}, 16, {1, 3}, {1, 2}, {1, 1}, {0, 1, 0, 1}}},
      {"less deep than a window",
       {{1, 2, 2, 2, 16}, 16, {7, 1, 1}, {1, 1, 1}, {1, 1, 1}, {6, 0, 0, 2, 0, 0}}},
      {"deep stem", {{1, 7, 2, 2, 16}, 16, {7, 1, 1}, {2, 1, 1}, {1, 1, 1}, {3, 0, 0, 3, 0, 0}}},
      {"single pixel", {{4, 1, 1, 10}, 3, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}},
  };
  return cases;
}

}  // namespace act
