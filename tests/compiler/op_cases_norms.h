// Rows of LayerNorm: layer, RMS, instance and group normalization.
#pragma once

#include <map>

#include "tests/compiler/op_cases_elementwise.h"

namespace act::gradient_case {

struct Norm {
  std::string name;
  Ints dims, axes;
  std::vector<Ints> weights = {};  // gamma, beta
  bool center = true;
  int64_t groups = 0, group_axis = 1;
  double low = -2, high = 2;  // of x
  bool batched = true;
};

inline Tensor NormTruth(const Norm& n, double epsilon, const std::vector<Tensor>& t) {
  const Tensor& x = t[0];
  // The elements of one statistic have the same key: the index without the normalized axes, and the
  // group in place of the channel.
  const auto key = [&n](Ints i) {
    for (int64_t axis : n.axes) i[static_cast<size_t>(axis)] = 0;
    const auto channel = static_cast<size_t>(n.group_axis);
    if (n.groups > 0) i[channel] /= n.dims[channel] / n.groups;
    return i;
  };
  std::map<Ints, double> count, sum, squares;
  truth::ForEach(x.dims, [&](const Ints& i) {
    count[key(i)] += 1;
    sum[key(i)] += n.center ? x.at(i) : 0;
  });
  const auto deviation = [&](const Ints& i) { return x.at(i) - sum[key(i)] / count[key(i)]; };
  truth::ForEach(x.dims, [&](const Ints& i) { squares[key(i)] += deviation(i) * deviation(i); });
  return truth::Make(x.dims, [&](const Ints& i) {
    const double xhat = deviation(i) / std::sqrt(squares[key(i)] / count[key(i)] + epsilon);
    return xhat * (t.size() > 1 ? t[1].Broadcast(i) : 1) + (t.size() > 2 ? t[2].Broadcast(i) : 0);
  });
}

inline std::vector<OpCase> NormCases() {
  const Ints row{7};
  std::vector<OpCase> cases;
  for (const Norm& norm : std::vector<Norm>{
           {"layer norm", {3, 5, 7}, {2}, {row, row}},
           {"layer norm, one sample", {1, 7}, {1}, {row, row}},
           {"layer norm without a bias", {3, 7}, {1}, {row}},
           {"layer norm without weights", {2, 5, 7}, {2}},
           {"layer norm of two axes", {4, 5, 7}, {1, 2}, {{5, 7}, {5, 7}}},
           {"layer norm, weights of fewer axes", {4, 5, 7}, {1, 2}, {row, {5, 1}}},
           {"layer norm of the whole sample", {3, 2, 2, 5}, {1, 2, 3}, {{2, 2, 5}, {2, 2, 5}}},
           {"layer norm of the leading axis", {5, 4}, {0}, {{4}, {4}}, true, 0, 1, -2, 2, false},
           {"layer norm of an axis inside", {3, 6, 4}, {1}, {{6, 1}, {6, 1}}},
           {"layer norm far from zero", {3, 40}, {1}, {{40}, {40}}, true, 0, 1, 200, 204},
           {"RMS norm", {3, 5, 7}, {2}, {row}, false},
           {"RMS norm without weights", {6, 7}, {1}, {}, false},
           {"instance norm", {3, 4, 3, 5}, {2, 3}, {{4, 1, 1}, {4, 1, 1}}, true, 4},
           {"group norm", {3, 6, 3, 5}, {2, 3}, {{6, 1, 1}, {6, 1, 1}}, true, 2},
           {"group norm, channels-last", {3, 3, 5, 6}, {1, 2}, {{6}, {6}}, true, 2, 3},
           {"group norm of one group", {2, 4, 9}, {2}, {{4, 1}, {4, 1}}, true, 1},
       }) {
    constexpr double kEpsilon = 1e-3;
    Attributes attrs;
    attrs.Set("axes", norm.axes);
    attrs.Set("epsilon", kEpsilon);
    attrs.Set("center", int64_t{norm.center});
    if (norm.groups > 0) attrs.Set("groups", norm.groups);
    if (norm.groups > 0) attrs.Set("group_axis", norm.group_axis);
    std::vector<Operand> operands{{norm.dims, norm.low, norm.high}};
    for (const Ints& dims : norm.weights) operands.push_back({dims});
    const std::vector<size_t> batched = norm.batched ? std::vector<size_t>{0} : std::vector<size_t>{};
    cases.push_back({norm.name, operands,
                     [attrs](GraphBuilder& b, const Values& v) { return b.Add1("LayerNorm", v, attrs); },
                     [norm](const Tensors& t) { return NormTruth(norm, kEpsilon, t); }, batched});
  }
  return cases;
}

}  // namespace act::gradient_case
