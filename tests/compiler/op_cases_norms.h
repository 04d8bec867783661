// Rows of LayerNorm: layer, RMS, instance and group normalization. Rows of ONNX's BatchNormalization
// whose running statistics are computed.
#pragma once

#include <map>

#include "tests/compiler/op_cases_imported.h"

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

// Means of x over all axes but that of channels, the second one.
inline ValueId ChannelMeans(GraphBuilder& b, ValueId x, bool keep) {
  Attributes over;
  Ints axes;
  for (int64_t i = 0; i < b.type(x).rank(); ++i)
    if (i != 1) axes.push_back(i);
  over.Set("axes", axes);
  over.Set("keepdims", int64_t{keep});
  return Take(b.Add1("ReduceMean", {x}, over));
}

// x's mean and variance for each channel, as exporters spell them out.
inline Values ChannelStatistics(GraphBuilder& b, ValueId x) {
  const ValueId deviation = Take(b.Add1("Sub", {x, ChannelMeans(b, x, true)}));
  return {ChannelMeans(b, x, false), ChannelMeans(b, Take(b.Add1("Mul", {deviation, deviation})), false)};
}

// x, scale and bias, normalized by the computed statistics of `of` (an operand), or of its product
// with operand `factor`.
inline auto ComputedBatchNorm(bool training, size_t of, size_t factor = 0) {
  return [=](GraphBuilder& b, const Values& v) {
    const ValueId other = factor == 0 ? v[of] : Take(b.Add1("Mul", {v[of], v[factor]}));
    const Values statistics = ChannelStatistics(b, other);
    return Imported("BatchNormalization",
                    {testing::Attr("epsilon", 1e-3), testing::Attr("training_mode", int64_t{training})})(
        b, {v[0], v[1], v[2], statistics[0], statistics[1]});
  };
}

inline std::vector<OpCase> ComputedStatisticsCases() {
  const auto truth_of = [](const Ints& dims, const Ints& axes) {
    return [=](const Tensors& t) {
      Ints channels(dims.size() - 1, 1);
      channels[0] = dims[1];
      return NormTruth({"", dims, axes}, 1e-3,
                       {t[0], truth::Reshape(t[1], channels), truth::Reshape(t[2], channels)});
    };
  };
  std::vector<OpCase> cases;
  for (const bool training : {true, false}) {
    const std::string form = training ? ", form of training" : ", form of inference";
    cases.push_back({"standardized weight" + form,
                     {{{1, 4, 9}}, {{4}}, {{4}}},
                     ComputedBatchNorm(training, 0),
                     truth_of({1, 4, 9}, {0, 2})});
    cases.push_back({"batch norm without stored statistics" + form,
                     {{{3, 4, 2, 5}}, {{4}}, {{4}}},
                     ComputedBatchNorm(training, 0),
                     truth_of({3, 4, 2, 5}, {0, 2, 3}),
                     {0}});
    cases.push_back({"batch norm of rows without stored statistics" + form,
                     {{{5, 4}}, {{4}}, {{4}}},
                     ComputedBatchNorm(training, 0),
                     truth_of({5, 4}, {0}),
                     {0}});
  }
  cases.push_back({"batch norm that ignores its statistics",
                   {{{3, 4, 5}}, {{4}}, {{4}}, {{2, 4, 3}, 3, 5, Kind::kFixed}},
                   ComputedBatchNorm(true, 3),
                   truth_of({3, 4, 5}, {0, 2})});
  cases.push_back({"batch norm by the statistics of another tensor",
                   {{{3, 4, 5}}, {{4}}, {{4}}, {{2, 4, 3}, -2, 2, Kind::kFixed}, {{4, 1}, 1, 2}},
                   ComputedBatchNorm(false, 3, 4),
                   [](const Tensors& t) {
                     return truth::Make(t[0].dims, [&](const Ints& i) {
                       double sum = 0, squares = 0;
                       const auto each = [&](const std::function<void(double)>& f) {
                         for (int64_t n = 0; n < 2; ++n)
                           for (int64_t k = 0; k < 3; ++k) f(t[3].at({n, i[1], k}) * t[4].at({i[1], 0}));
                       };
                       each([&](double z) { sum += z / 6; });
                       each([&](double z) { squares += (z - sum) * (z - sum) / 6; });
                       const double xhat = (t[0].at(i) - sum) / std::sqrt(squares + 1e-3);
                       return xhat * t[1].at({i[1]}) + t[2].at({i[1]});
                     });
                   }});
  cases.push_back(
      {"instance norm as a batch norm of one sample",
       {{{3, 4, 2, 5}}, {{4}}, {{4}}},
       [](GraphBuilder& b, const Values& v) {
         const Dims dims = b.type(v[0]).dims;
         const Dim channels = dims[0] * dims[1];
         const auto repeat = [&](ValueId w) {
           const ValueId rows = Take(b.Expand(w, {dims[0], dims[1]}));
           return Take(b.Reshape(rows, {channels}));
         };
         const ValueId flat = Take(b.Reshape(v[0], {Dim(1), channels, dims[2], dims[3]}));
         const ValueId y = Take(ComputedBatchNorm(true, 0)(b, {flat, repeat(v[1]), repeat(v[2])}));
         return b.Reshape(y, dims);
       },
       truth_of({3, 4, 2, 5}, {2, 3}),
       {0}});
  return cases;
}

}  // namespace act::gradient_case
