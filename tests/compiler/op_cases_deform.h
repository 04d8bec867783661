// Rows of DeformConv.
#pragma once

#include <cmath>

#include "tests/compiler/imported_case.h"

namespace act::gradient_case {

struct DeformRow {
  Ints image;  // [N, C, H, W]
  int64_t results = 0;
  Ints kernel;
  int64_t group = 1, parts = 1;  // of the channels, that share weights, and that share offsets
  bool bias = false, mask = false;
  Ints strides = {1, 1}, dilations = {1, 1}, pads = {0, 0, 0, 0};

  int64_t Taps() const { return kernel[0] * kernel[1]; }
  int64_t Places(size_t axis) const {
    return (image[axis + 2] + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1) /
               strides[axis] +
           1;
  }
};

inline double AtPoint(const Tensor& x, int64_t sample, int64_t channel, double row, double column) {
  double sum = 0;
  for (const double h : {std::floor(row), std::floor(row) + 1})
    for (const double w : {std::floor(column), std::floor(column) + 1}) {
      const Ints at = {sample, channel, static_cast<int64_t>(h), static_cast<int64_t>(w)};
      if (at[2] >= 0 && at[2] < x.dim(2) && at[3] >= 0 && at[3] < x.dim(3))
        sum += (1 - std::fabs(row - h)) * (1 - std::fabs(column - w)) * x.at(at);
    }
  return sum;
}

// Operands: x, weight, offset, bias if there is one, mask if there is one.
inline Tensor DeformConvOf(const DeformRow& row, const Tensors& t) {
  const int64_t channels = row.image[1], of_group = channels / row.group, of_part = channels / row.parts;
  return truth::Make({row.image[0], row.results, row.Places(0), row.Places(1)}, [&](const Ints& at) {
    double sum = row.bias ? t[3].at({at[1]}) : 0;
    const int64_t first = at[1] / (row.results / row.group) * of_group;
    truth::ForEach({of_group, row.kernel[0], row.kernel[1]}, [&](const Ints& k) {
      const int64_t channel = first + k[0];
      const int64_t tap = channel / of_part * row.Taps() + k[1] * row.kernel[1] + k[2];
      double point[2];
      for (size_t a = 0; a < 2; ++a)
        point[a] =
            static_cast<double>(at[a + 2] * row.strides[a] - row.pads[a] + k[a + 1] * row.dilations[a]) +
            t[2].at({at[0], 2 * tap + static_cast<int64_t>(a), at[2], at[3]});
      const double mask = row.mask ? t[row.bias ? 4 : 3].at({at[0], tap, at[2], at[3]}) : 1;
      sum += t[1].at({at[1], k[0], k[1], k[2]}) * mask * AtPoint(t[0], at[0], channel, point[0], point[1]);
    });
    return sum;
  });
}

inline std::vector<OpCase> DeformConvCases() {
  const std::vector<DeformRow> rows = {
      {{2, 2, 3, 3}, 2, {3, 2}, 1, 1, true, true, {1, 1}, {1, 1}, {1, 1, 1, 0}},
      {{2, 2, 4, 4}, 4, {2, 2}, 2, 1, false, false, {2, 1}, {1, 2}, {0, 1, 1, 0}},
      {{1, 4, 4, 4}, 2, {2, 2}, 1, 2, true, false},
      {{2, 6, 3, 1}, 3, {3, 1}, 3, 2, false, true, {1, 1}, {1, 1}, {1, 0, 1, 0}},
  };
  std::vector<OpCase> cases;
  for (const DeformRow& row : rows) {
    const int64_t of_parts = row.parts * row.Taps();
    OpCase c{"DeformConv of " + ::testing::PrintToString(row.image),
             {{row.image},
              {{row.results, row.image[1] / row.group, row.kernel[0], row.kernel[1]}},
              {{row.image[0], 2 * of_parts, row.Places(0), row.Places(1)}}},
             {},
             [row](const Tensors& t) { return DeformConvOf(row, t); },
             {0, 2}};
    std::vector<NodeInput> inputs = {size_t{0}, size_t{1}, size_t{2}};
    if (row.bias) {
      inputs.emplace_back(c.operands.size());
      c.operands.push_back({{row.results}});
    }
    if (row.mask) {
      inputs.resize(4);
      inputs.emplace_back(c.operands.size());
      c.batched.push_back(c.operands.size());
      c.operands.push_back({{row.image[0], of_parts, row.Places(0), row.Places(1)}});
    }
    c.build = [row, inputs](GraphBuilder& b, const Values& v) {
      using testing::Attr;
      return ImportOne(b, v,
                       NodeOf("DeformConv", {Attr("group", row.group), Attr("offset_group", row.parts),
                                             Attr("strides", row.strides), Attr("dilations", row.dilations),
                                             Attr("pads", row.pads)}),
                       inputs, 19);
    };
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace act::gradient_case
