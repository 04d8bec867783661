// Classification losses. A team works on each row. A block works on every part_count-th group of rows,
// and adds their losses in order; a second kernel adds what the blocks have.
#pragma once

#include "kernels/cuda/source/loss_parameters.h"
#include "kernels/cuda/source/report.h"
#include "kernels/cuda/source/softmax.h"

namespace act::cuda {

// What a row's label says.
struct LabelFacts {
  int32_t at;  // its class. One that is out of range counts as the nearest class
  bool in_range, ignored;
  double weight;  // in the loss
};

ACT_DEVICE LabelFacts FactsOf(const LossParameters& p, int64_t label) {
  LabelFacts facts;
  facts.in_range = label >= 0 && label < p.classes;
  facts.at = facts.in_range ? static_cast<int32_t>(label) : label < 0 ? 0 : p.classes - 1;
  facts.ignored = p.has_ignore_index && label == p.ignore_index;
  facts.weight = facts.ignored ? 0 : p.class_weight ? Load(p.class_weight + facts.at) : 1;
  return facts;
}

ACT_DEVICE void ReportLabel(const LossParameters& p, int64_t label) {
  Report(p.faults, p.fault_site, DataFault::kLabel, label);
}

// The sums of all threads of a block.
template <int kThreads>
ACT_DEVICE LossPart SumOverBlock(const LossPart& mine) {
  return {SumOverTeam<kThreads>(mine.sum), SumOverTeam<kThreads>(mine.weight)};
}

// The sums of all parts, for every thread of a block.
template <int kThreads>
ACT_DEVICE LossPart SumOfParts(const LossParameters& p) {
  LossPart mine = {0, 0};
  for (int32_t part = threadIdx.x; part < p.part_count; part += kThreads) {
    mine.sum += Load(&p.parts[part].sum);
    mine.weight += Load(&p.parts[part].weight);
  }
  return SumOverBlock<kThreads>(mine);
}

ACT_DEVICE void StorePart(const LossParameters& p, const LossPart& part) {
  Store(&p.parts[blockIdx.x].sum, part.sum);
  Store(&p.parts[blockIdx.x].weight, part.weight);
}

ACT_DEVICE void StoreLoss(const LossParameters& p, const LossPart& all) {
  const double denominator = !p.mean ? 1 : p.denominator ? Load(p.denominator) : all.weight;
  Store(p.loss, static_cast<float>(all.sum / denominator));
}

// The last kernel of a loss that has several parts.
ACT_DEVICE void FinishLoss(const LossParameters& p) {
  const LossPart all = SumOfParts<kLossThreads>(p);
  if (threadIdx.x == 0) StoreLoss(p, all);
}

// Calls of_row(row, its shape) for the rows of a block, and adds what it returns for lane 0 of each team.
template <class Shape, class F>
ACT_DEVICE void ForRowsOfPart(const LossParameters& p, F of_row) {
  constexpr int kThreads = Shape::kTeam > kLossThreads ? Shape::kTeam : kLossThreads;
  constexpr int32_t kTeams = kThreads / Shape::kTeam;
  LossPart mine = {0, 0};
  for (int64_t group = blockIdx.x; group * kTeams < p.rows; group += p.part_count) {
    const int64_t row = group * kTeams + threadIdx.x / Shape::kTeam;
    const Shape shape = ShapeOfRow<Shape>(row, p.rows, p.classes);
    const LossPart part = of_row(row, shape);
    if (shape.lane > 0 || shape.columns == 0) continue;
    mine.sum += part.sum;
    mine.weight += part.weight;
  }
  const LossPart sum = SumOverBlock<kThreads>(mine);
  if (threadIdx.x > 0) return;
  if (p.part_count == 1)
    StoreLoss(p, sum);
  else
    StorePart(p, sum);
}

// loss = sum of weight[label] * (log(sum exp logits) - logits[label]) / denominator, and prob
template <class Shape>
ACT_DEVICE void SoftmaxCrossEntropy(const LossParameters& p) {
  ForRowsOfPart<Shape>(p, [&](int64_t row, const Shape& shape) -> LossPart {
    const float* logits = p.logits + row * p.classes;
    // prob may have the memory of the logits. No thread stores before all have loaded what they need of both.
    float at_label = 0;
    LabelFacts label = {};
    if (shape.lane == 0 && shape.columns > 0) {
      const int64_t number = Load(p.label + row);
      label = FactsOf(p, number);
      if (!label.in_range && !label.ignored) ReportLabel(p, number);
      at_label = Load(logits + label.at);
    }
    Row<Shape> x(shape, logits);
    const SoftmaxScale scale = ScaleOf(shape, x);
    StoreSoftmax(shape, scale, x, p.prob + row * p.classes);
    if (label.ignored) return {0, 0};
    return {label.weight * (log(scale.sum) + scale.max - at_label), label.weight};
  });
}

// Counts the rows whose first largest logit is that of the label. The first logit is the largest if it
// is NaN; other NaNs are none.
template <class Shape>
ACT_DEVICE void CountCorrect(const LossParameters& p) {
  const auto ranked = [](float v, int32_t c) { return v == v ? v : c == 0 ? kInfinity : -kInfinity; };
  ForRowsOfPart<Shape>(p, [&](int64_t row, const Shape& shape) -> LossPart {
    const float* logits = p.logits + row * p.classes;
    LabelFacts label = {};
    if (shape.columns > 0) label = FactsOf(p, Load(p.label + row));
    const float mark = shape.columns > 0 ? ranked(Load(logits + label.at), label.at) : 0;
    Row<Shape> x(shape, logits);
    int32_t before = 0;  // elements that come before the label's
    ForRow(
        shape,
        [&](int32_t c, float v) {
          const float rank = ranked(v, c);
          before += rank > mark || (rank == mark && c < label.at);
        },
        x);
    before = SumOverTeam<Shape::kTeam>(before);
    return {label.in_range && !label.ignored && before == 0 ? 1.0 : 0.0, 0};
  });
}

// The weights of the labels of a part.
ACT_DEVICE LossPart WeightsOfPart(const LossParameters& p) {
  LossPart mine = {0, 0};
  for (int64_t row = int64_t{blockIdx.x} * kLossThreads + threadIdx.x; row < p.rows;
       row += int64_t{p.part_count} * kLossThreads) {
    const int64_t number = Load(p.label + row);
    const LabelFacts label = FactsOf(p, number);
    if (!label.in_range && !label.ignored) ReportLabel(p, number);
    mine.weight += label.weight;
  }
  return SumOverBlock<kLossThreads>(mine);
}
ACT_DEVICE void SumLabelWeights(const LossParameters& p) {
  const LossPart sum = WeightsOfPart(p);
  if (threadIdx.x == 0) StorePart(p, sum);
}

// The sum of the weights of all labels, by one block, or after SumLabelWeights.
ACT_DEVICE void LossDenominator(const LossParameters& p) {
  const LossPart all = p.part_count > 1 ? SumOfParts<kLossThreads>(p) : WeightsOfPart(p);
  if (threadIdx.x == 0) Store(p.loss, static_cast<float>(all.weight));
}

// The sum of the weights of all labels, for every thread of a block. Without parts, from the labels.
template <int kThreads>
ACT_DEVICE double Denominator(const LossParameters& p) {
  if (!p.mean) return 1;
  if (p.denominator) return Load(p.denominator);
  if (p.part_count > 0) return SumOfParts<kThreads>(p).weight;
  double mine = 0;
  for (int64_t row = threadIdx.x; row < p.rows; row += kThreads)
    mine += FactsOf(p, Load(p.label + row)).weight;
  return SumOverTeam<kThreads>(mine);
}

// dlogits = dloss * weight[label] / denominator * (prob - onehot(label)); 0 if the label is ignored
// Of type T.
template <class Shape, class T>
ACT_DEVICE void SoftmaxCrossEntropyGrad(const LossParameters& p) {
  constexpr int kThreads = Shape::kTeam > kLossThreads ? Shape::kTeam : kLossThreads;
  const double scale = Load(p.dloss) / Denominator<kThreads>(p);
  const int64_t row = RowOfTeam<Shape>();
  const Shape shape = ShapeOfRow<Shape>(row, p.rows, p.classes);
  if (shape.columns == 0) return;
  const int64_t number = Load(p.label + row);
  const LabelFacts label = FactsOf(p, number);
  if (shape.lane == 0 && !label.in_range && !label.ignored) ReportLabel(p, number);
  const auto factor = static_cast<float>(scale * label.weight);
  Row<Shape> prob(shape, p.logits + row * p.classes);
  MapRow(
      shape, static_cast<T*>(p.dlogits) + row * p.classes,
      [&](int32_t c, float v) { return label.ignored ? 0.0f : factor * (c == label.at ? v - 1.0f : v); },
      prob);
}

}  // namespace act::cuda
