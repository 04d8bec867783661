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

}  // namespace act
