// Random products: MatMul, convolutions, attention, recurrent steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "tests/unit/attention_cases.h"
#include "tests/unit/conv_case.h"
#include "tests/unit/matmul_case.h"
#include "tests/unit/random_draw.h"
#include "tests/unit/recurrent_cases.h"

namespace act::random_shapes {

// ---- Products ------------------------------------------------------------------------------------

inline RandomCase RandomMatMul(Draw& draw) {
  const auto stack = [&](Ints batch, int64_t rows, int64_t columns, bool transposed) {
    if (transposed) std::swap(rows, columns);
    batch.insert(batch.end(), {rows, columns});
    return batch;
  };
  Ints extents, batch, a, b;
  const auto axes = draw.Of<int64_t>({0, 0, 1, 1, 2, 3});
  do {
    extents = {draw.Extent(), draw.Extent(), draw.Extent()};
    if (draw.Percent(10)) extents[draw.Axis(3)] = draw.Of<int64_t>({0, 65, 130, 300});
    batch.clear();
    for (int64_t d = 0; d < axes; ++d) batch.push_back(draw.Batch());
  } while (ElementCount(batch) * ElementCount(extents) > 200000);
  // An operand may lack leading axes, or have 1 where the result has more.
  const bool alike = draw.Percent(40);
  for (Ints* operand : {&a, &b}) {
    *operand = batch;
    for (int64_t& extent : *operand)
      if (!alike && draw.Percent(30)) extent = 1;
    if (!alike && axes > 0 && draw.Percent(40))
      operand->erase(operand->begin(), operand->begin() + draw.Between(1, axes));
  }
  for (size_t d = 0; d < batch.size(); ++d) {
    const auto of = [&](const Ints& operand) {
      const size_t missing = batch.size() - operand.size();
      return d < missing ? 1 : operand[d - missing];
    };
    batch[d] = of(a) == 1 ? of(b) : of(a);
  }
  const bool trans_a = draw.Coin(), trans_b = draw.Coin();
  const int64_t m = extents[0], k = extents[1], n = extents[2];
  OpCase c =
      MatMul(stack(a, m, k, trans_a), stack(b, k, n, trans_b), stack(batch, m, n, false), trans_a, trans_b);
  c.inputs[0] = Whole(c.inputs[0], draw, FloatType(draw));
  c.inputs[1] = Whole(c.inputs[1], draw, FloatType(draw));
  const bool wide = c.inputs[0].dtype == DType::kFloat32 && c.inputs[1].dtype == DType::kFloat32;
  if (!wide && draw.Coin()) c.outputs[0] = Empty(c.outputs[0].dims, DType::kBFloat16);
  if (draw.Percent(30)) c.inputs.push_back(Integers({n}, draw.Seed()));
  if (draw.Coin()) c.attrs.Set("may_round", int64_t{1});
  // Only sums over samples go on, and those are of float32.
  if (trans_a && axes == 0 && c.inputs.size() == 2 && c.outputs[0].dtype == DType::kFloat32 && draw.Coin()) {
    c.outputs[0] = Whole(c.outputs[0], draw);
    c.goes_on = true;
  }
  return {c};
}

// What convolutions and pools share: windows that stand still, jump, or are larger than the image.
struct RandomWindow {
  Ints in, kernel, strides, dilations, pads;

  RandomWindow(Draw& draw, int64_t rank) {
    in.push_back(draw.Batch());
    pads.resize(static_cast<size_t>(2 * rank));
    for (size_t a = 0; a < static_cast<size_t>(rank); ++a) {
      in.push_back(draw.Extent());
      kernel.push_back(draw.Of<int64_t>({1, 1, 1, 2, 3, 3, 5, 7}));
      strides.push_back(draw.Of<int64_t>({1, 1, 1, 2, 3}));
      dilations.push_back(draw.Of<int64_t>({1, 1, 1, 2, 3}));
      const int64_t span = dilations[a] * (kernel[a] - 1) + 1;
      int64_t &begin = pads[a], &end = pads[a + static_cast<size_t>(rank)];
      begin = draw.Of<int64_t>({0, 0, 0, 1, 1, 2, span / 2, span - 1, span});
      end = draw.Coin() ? begin : draw.Of<int64_t>({0, 0, 1, 2, span / 2, span});
      end = std::max(end, span - in.back() - begin);  // one window at least
    }
  }
};

inline ConvCase RandomConvolution(Draw& draw) {
  const auto rank = draw.Of<int64_t>({1, 2, 2, 2, 3});
  for (;;) {
    RandomWindow w(draw, rank);
    ConvCase conv{w.in, 1, w.kernel, w.strides, w.dilations, w.pads};
    const bool grouped = draw.Percent(50), depthwise = grouped && draw.Coin();
    if (grouped) conv.group = draw.Extent();
    conv.in.push_back(depthwise ? conv.group : conv.group * draw.Extent());
    conv.out_channels = conv.group * (depthwise && draw.Percent(70) ? 1 : draw.Extent());
    const int64_t terms = ElementCount(conv.WeightDims());
    if (terms * ElementCount(conv.OutDims()) / conv.out_channels < 200000 && terms < 20000) return conv;
  }
}

inline RandomCase Product(Draw& draw, OpCase c) {
  const DType dtype = FloatType(draw);
  c.inputs[0] = Whole(c.inputs[0], draw, dtype);
  c.inputs[1] = Whole(c.inputs[1], draw, c.op == "ConvGradWeight" ? dtype : DType::kFloat32);
  if (c.inputs.size() > 2) c.inputs[2] = Whole(c.inputs[2], draw);
  if (c.op == "ConvGradWeight" && draw.Coin()) c.attrs.Set("may_round", int64_t{1});
  if (c.op != "ConvGradWeight" && dtype == DType::kBFloat16 && draw.Coin())
    c.outputs[0] = Empty(c.outputs[0].dims, DType::kBFloat16);
  return {c};
}

inline RandomCase RandomConv(Draw& draw) {
  return Product(draw, RandomConvolution(draw).Forward(draw.Coin()));
}
inline RandomCase RandomConvGradInput(Draw& draw) {
  return Product(draw, RandomConvolution(draw).GradInput());
}
inline RandomCase RandomConvGradWeight(Draw& draw) {
  return Product(draw, RandomConvolution(draw).GradWeight());
}

// ---- Attention -----------------------------------------------------------------------------------

inline RandomCase Attention(Draw& draw, bool gradient) {
  attention_cases::Form f{.name = "", .q = {}, .k = {}, .v = {}};
  Ints batch;
  int64_t queries = 0, keys = 0, group = 0, heads = 0, depth = 0, value_depth = 0;
  do {
    batch.assign(draw.Of<size_t>({0, 1, 1, 1, 2}), 1);
    for (int64_t& extent : batch) extent = draw.Batch();
    heads = draw.Of<int64_t>({1, 1, 2, 3}), group = draw.Of<int64_t>({1, 1, 1, 2, 3});
    queries = draw.Extent(), keys = draw.Percent(40) ? queries : draw.Extent();
    if (draw.Percent(10)) keys = draw.Of<int64_t>({65, 130});
    depth = draw.Extent(), value_depth = draw.Coin() ? depth : draw.Extent();
  } while (ElementCount(batch) * heads * group * queries * keys * (depth + value_depth) > 300000);
  const auto stack = [&](int64_t of_heads, int64_t rows, int64_t columns) {
    Ints dims = batch;
    dims.insert(dims.end(), {of_heads, rows, columns});
    return dims;
  };
  f.q = stack(heads * group, queries, depth);
  f.k = stack(heads, keys, depth);
  f.v = stack(heads, keys, value_depth);
  f.heads_second = batch.size() == 1 && draw.Coin();
  const auto broadcast = [&] {
    Ints dims = stack(heads * group, queries, keys);
    for (int64_t& extent : dims)
      if (draw.Percent(40)) extent = 1;
    dims.erase(dims.begin(), dims.begin() + draw.Between(0, static_cast<int64_t>(dims.size()) - 1));
    return dims;
  };
  if (draw.Percent(40)) f.bias = broadcast();
  if (draw.Percent(30)) f.mask = broadcast();
  f.causal = draw.Percent(30);
  f.offset = draw.Between(-2, 5);
  if (draw.Percent(20)) f.window = draw.Between(-5, 3);
  if (draw.Percent(20)) f.softcap = .7;
  if (draw.Percent(20)) f.dropout = .3;
  f.empty_row = draw.Of<const char*>({"nan", "mean", "zero"});
  f.hidden_gradient = draw.Coin();
  f.bias_gradient = draw.Coin();
  OpCase c = gradient ? attention_cases::Gradient(f) : attention_cases::Forward(f);
  if (f.heads_second && group == 1 && queries == keys && depth == value_depth && draw.Percent(30)) {
    Ints dims = c.inputs[gradient ? 1 : 0].dims;
    const int64_t axis = draw.Between(0, 4);
    dims.insert(dims.begin() + axis, 3);
    c.attrs.Set("packed", axis);
    const TestTensor qkv = Random(dims, draw.Seed());
    for (size_t i = 0; i < 3; ++i) c.inputs[i + gradient] = qkv;
    if (gradient) {
      c.outputs.erase(c.outputs.begin(), c.outputs.begin() + 2);
      c.outputs[0] = Empty(dims);
    }
  }
  // Sums of up to 130 products in float32, of some 2000 for a bias, and exponentials to 2 ulp: 2^-24
  // sqrt(2000) of numbers up to 4. With a single key all gradients of scores cancel, hence the least scale.
  if (draw.Coin()) return {c, 1e-5, 1};
  // Where a probability lies between two bfloat16 numbers, kernels may round it to either: 2^-8 of a term
  // of one key of few.
  c = attention_cases::InBFloat16(c);
  return {c, std::ldexp(1, -6), 1, BothTypes{c, attention_cases::WithBFloat16Results(c)}};
}
inline RandomCase RandomAttention(Draw& draw) { return Attention(draw, false); }
inline RandomCase RandomAttentionGrad(Draw& draw) { return Attention(draw, true); }

inline RandomCase Recurrence(Draw& draw, const char* op) {
  recurrent_cases::Shape shape{draw.Batch(), draw.Extent(), draw.Extent()};
  if (draw.Percent(5)) shape.units = draw.Of<int64_t>({0, 65, 130});
  OpCase c = recurrent_cases::Case(op, shape, draw.Coin(), draw.Coin());
  const std::string letters(FindRecurrentSignature(op)->inputs);
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (letters[i] >= 'a' && draw.Percent(30)) c.inputs[i] = Absent();
  if (c.op == "Rnn" && draw.Coin()) c.attrs.Set("activation", std::string("Relu"));
  // As recurrent_test.cc, for up to 33 steps.
  return {c, 1e-5, 1};
}

}  // namespace act::random_shapes
