// A pooling, and its operators as test cases.
#pragma once

#include "kernels/site/strided.h"
#include "tests/unit/kernel_testing.h"

namespace act {

struct PoolCase {
  std::vector<int64_t> in, kernel, strides, pads;
  bool ceil = false;
  std::vector<int64_t> dilations = std::vector<int64_t>(kernel.size(), 1);

  std::vector<int64_t> OutDims() const {
    std::vector<int64_t> out{in[0]};
    for (size_t a = 0; a < kernel.size(); ++a) {
      const int64_t room = in[1 + a] + pads[a] + pads[kernel.size() + a] - dilations[a] * (kernel[a] - 1) - 1;
      out.push_back((ceil ? room + strides[a] - 1 : room) / strides[a] + 1);
    }
    out.push_back(in.back());
    return out;
  }
  Attributes Attrs(bool include_pad = false) const {
    Attributes a;
    a.Set("kernel_shape", kernel);
    a.Set("strides", strides);
    a.Set("dilations", dilations);
    a.Set("pads", pads);
    a.Set("count_include_pad", int64_t{include_pad});
    return a;
  }
  OpCase Max(DType index) const {
    return {"MaxPool", Attrs(), {Random(in, 1)}, {Empty(OutDims()), Empty(OutDims(), index)}, {}, {}};
  }
  // With the index that the reference makes of Max().
  OpCase MaxGrad(DType index) const {
    const OpResult y = RunReference(Max(index));
    return {"MaxPoolGrad", Attrs(), {Random(OutDims(), 2), y.tensors[1]}, {Empty(in)}, {}, {}};
  }
  OpCase Average(bool include_pad) const {
    return {"AveragePool", Attrs(include_pad), {Random(in, 1)}, {Empty(OutDims())}, {}, {}};
  }
  OpCase AverageGrad(bool include_pad) const {
    return {"AveragePoolGrad", Attrs(include_pad), {Random(OutDims(), 2)}, {Empty(in)}, {}, {}};
  }
};

inline const std::vector<PoolCase>& PoolCases() {
  static const std::vector<PoolCase> cases = {
      {{2, 9, 9, 5}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
      {{2, 8, 6, 130}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
      {{1, 7, 7, 32}, {7, 7}, {1, 1}, {0, 0, 0, 0}},
      {{2, 6, 7, 3}, {3, 2}, {2, 3}, {0, 0, 1, 1}, true},
      {{2, 9, 9, 4}, {3, 3}, {1, 1}, {2, 2, 2, 2}, false, {2, 2}},
      {{3, 11, 4}, {3}, {2}, {1, 0}},
      {{1, 4, 5, 6, 7}, {2, 3, 2}, {2, 1, 2}, {0, 1, 0, 0, 1, 0}},
      {{0, 4, 4, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
      {{5, 31, 29, 20}, {3, 3}, {2, 2}, {1, 1, 1, 1}},  // enough for several threads
  };
  return cases;
}

}  // namespace act
