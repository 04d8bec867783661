// Random nodes of operators that are no products.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/random_products.h"
#include "tests/unit/resize_case.h"
#include "tests/unit/update_rows_case.h"

namespace act::random_shapes {

// ---- Windows, rows and reductions ----------------------------------------------------------------

inline PoolCase RandomPool(Draw& draw) {
  const auto rank = draw.Of<int64_t>({1, 2, 2, 2, 3});
  for (;;) {
    RandomWindow w(draw, rank);
    w.in.push_back(draw.Extent());
    const PoolCase pool{w.in, w.kernel, w.strides, w.pads, draw.Percent(30), w.dilations};
    if (ElementCount(pool.OutDims()) * ElementCount(pool.kernel) < 200000 && ElementCount(pool.kernel) <= 256)
      return pool;
  }
}
// Few different numbers, so that many are equal.
inline RandomCase RandomMaxPool(Draw& draw) {
  OpCase c = RandomPool(draw).Max(draw.Coin() ? DType::kUint8 : DType::kInt32);
  c.inputs[0] = Whole(c.inputs[0], draw);
  if (draw.Percent(30)) c.outputs.pop_back();
  return InEitherType(draw, c, 0);
}
inline RandomCase RandomMaxPoolGrad(Draw& draw) {
  OpCase c = RandomPool(draw).MaxGrad(draw.Coin() ? DType::kUint8 : DType::kInt32);
  c.inputs[0] = Whole(c.inputs[0], draw);
  return InEitherType(draw, c, 0);
}
// Windows of up to 256 numbers are added up in float32: their mean is off by some 2^-24 of them.
inline RandomCase RandomAveragePool(Draw& draw) {
  return InEitherType(draw, RandomPool(draw).Average(draw.Coin()), 1e-6, 1);
}
inline RandomCase RandomAveragePoolGrad(Draw& draw) {
  return InEitherType(draw, RandomPool(draw).AverageGrad(draw.Coin()), 1e-6, 1);
}

// Running statistics may cancel, hence the least scale.
inline RandomCase RandomBatchNormStats(Draw& draw) {
  OpCase c = BatchNormCase(Random(draw.Extents(draw.Between(1, 5)), draw.Seed()));
  if (draw.Percent(30)) {
    c.inputs[1] = c.inputs[2] = Absent();
    c.mutates = {};
  }
  if (draw.Coin()) c.outputs.pop_back();
  if (draw.Coin()) c.attrs.Set("population", int64_t{1});
  return InEitherType(draw, c, kBatchNormTolerance, 1);
}
inline RandomCase RandomBatchNormMoments(Draw& draw) {
  return InEitherType(draw, BatchNormMomentsCase(Random(draw.Extents(draw.Between(1, 5)), draw.Seed())),
                      kBatchNormTolerance, 1);
}

// Exponentials to 2 ulp. The gradient's sum of up to 1025 products cancels: 2^-24 sqrt(1025) of numbers up
// to 4.
inline RandomCase Rows(Draw& draw, const char* op, size_t operands) {
  const Ints dims = draw.Extents(draw.Between(1, 4));
  OpCase c{op, {}, {}, {Empty(dims)}, {}, {}};
  for (size_t i = 0; i < operands; ++i) c.inputs.push_back(Random(dims, draw.Seed()));
  return {c, 5e-6, 1};
}

inline RandomCase Reduction(Draw& draw, const char* op) {
  const int64_t rank = draw.Between(0, 5);
  Ints axes;
  for (int64_t d = 0; d < rank; ++d)
    if (draw.Coin()) axes.push_back(draw.Percent(20) ? d - rank : d);
  return InEitherType(draw, ReduceCase(op, draw.Extents(rank), axes, draw.Coin()), kReduceTolerance);
}

inline TestTensor SomeLabelsOf(Draw& draw, const Ints& dims, int64_t classes) {
  TestTensor t = Empty(dims, DType::kInt64);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<int64_t>()[i] = draw.Between(0, classes - 1);
  return t;
}
inline OpCase RandomLoss(Draw& draw) {
  Ints dims = draw.Extents(draw.Between(1, 4));
  if (dims.back() == 0) dims.back() = 1;
  OpCase c = LossCase(dims, std::vector<int64_t>(static_cast<size_t>(ElementCount(dims) / dims.back())),
                      draw.Coin(), draw.Of<const char*>({"mean", "sum"}));
  c.inputs[1] = SomeLabelsOf(draw, c.inputs[1].dims, dims.back());
  if (draw.Percent(30)) c.attrs.Set("ignore_index", draw.Of<int64_t>({0, 1, -100}));
  return c;
}
inline RandomCase SoftmaxLoss(Draw& draw, bool gradient) {
  OpCase c = RandomLoss(draw);
  if (gradient) c = LossGradCase(c, 1.5f);
  if (draw.Percent(30)) c.inputs.push_back(Floats({}, {7}));
  // The gradient of a single class is 0.
  return gradient ? InEitherType(draw, c, kLossTolerance, 1) : RandomCase{c, kLossTolerance, 1};
}
inline RandomCase RandomCountCorrect(Draw& draw) {
  const OpCase loss = RandomLoss(draw);
  OpCase c{"CountCorrect", loss.attrs, {Whole(loss.inputs[0], draw), loss.inputs[1]}, {Empty({})}, {}, {}};
  return {c};
}

// ---- What moves elements -------------------------------------------------------------------------

inline DType AnyType(Draw& draw) {
  return draw.Of<DType>(
      {DType::kFloat32, DType::kFloat32, DType::kBFloat16, DType::kInt64, DType::kUint8, DType::kFloat16});
}
// No byte pattern is a NaN.
inline TestTensor Bytes(Draw& draw, const Ints& dims, DType dtype) {
  TestTensor t = Empty(dims, dtype);
  for (std::byte& b : t.bytes) b = static_cast<std::byte>(draw.Between(0, 0x3f));
  return t;
}

inline RandomCase RandomTranspose(Draw& draw) {
  const int64_t rank = draw.Between(0, 6);
  Ints perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  for (int64_t d = rank; d > 1; --d) std::swap(perm[static_cast<size_t>(d - 1)], perm[draw.Axis(d)]);
  return {Transpose(draw.Extents(rank), perm, AnyType(draw))};
}

inline RandomCase RandomConcat(Draw& draw) {
  const int64_t rank = draw.Between(1, 5);
  const DType dtype = AnyType(draw);
  Ints out = draw.Extents(rank, 5000);
  const size_t axis = draw.Axis(rank);
  out[axis] = 0;
  OpCase c{"Concat", {}, {}, {}, {}, {}};
  for (int64_t parts = draw.Between(1, 5); parts > 0; --parts) {
    Ints in = out;
    in[axis] = draw.Percent(10) ? 0 : draw.Extent();
    out[axis] += in[axis];
    c.inputs.push_back(Bytes(draw, in, dtype));
  }
  c.outputs = {Empty(out, dtype)};
  c.attrs.Set("axis", static_cast<int64_t>(axis) - (draw.Percent(20) ? rank : 0));
  return {c};
}

inline OpCase RandomSliceOf(Draw& draw) {
  const int64_t rank = draw.Between(1, 5);
  const Ints whole = draw.Extents(rank);
  Ints part, starts, steps;
  for (const int64_t extent : whole) {
    const int64_t step = draw.Of<int64_t>({1, 1, 1, 2, 3, -1, -2});
    const int64_t most = (extent + std::abs(step) - 1) / std::abs(step);
    const int64_t count = draw.Coin() ? most : draw.Between(draw.Percent(5) || most == 0 ? 0 : 1, most);
    const int64_t room = extent - std::max<int64_t>((count - 1) * std::abs(step) + 1, 0);
    const int64_t first = draw.Between(0, std::max<int64_t>(room, 0));
    part.push_back(count);
    steps.push_back(step);
    starts.push_back(count == 0 ? 0 : step > 0 ? first : first + (count - 1) * -step);
  }
  return Slice(whole, part, starts, steps);
}
inline OpCase OfAnyType(Draw& draw, OpCase c) {
  const DType dtype = AnyType(draw);
  c.inputs[0] = Bytes(draw, c.inputs[0].dims, dtype);
  c.outputs[0] = Empty(c.outputs[0].dims, dtype);
  return c;
}
inline RandomCase RandomSlice(Draw& draw) { return {OfAnyType(draw, RandomSliceOf(draw))}; }
inline RandomCase RandomSliceGrad(Draw& draw) { return {OfAnyType(draw, SliceGrad(RandomSliceOf(draw)))}; }

inline RandomCase RandomPad(Draw& draw) {
  const int64_t rank = draw.Between(1, 4);
  const Ints in = draw.Extents(rank, 3000);
  const std::string mode =
      ElementCount(in) == 0 ? "constant" : draw.Of<const char*>({"constant", "reflect", "edge"});
  Ints pads(static_cast<size_t>(2 * rank));
  for (size_t d = 0; d < in.size(); ++d) {
    // A reflection shows no more than lies beside the edge.
    const int64_t most = mode == "reflect" ? std::min<int64_t>(in[d] - 1, 3) : 3;
    int64_t &begin = pads[d], &end = pads[d + in.size()];
    begin = draw.Coin() ? 0 : draw.Between(-1, most);
    end = draw.Coin() ? 0 : draw.Between(-1, most);
    if (in[d] + std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0) < 1) begin = end = 0;
  }
  OpCase c = Pad(in, pads, mode, 3);
  DType dtype = AnyType(draw);
  if (dtype == DType::kFloat16) dtype = DType::kFloat32;
  c.inputs[0] = Bytes(draw, in, dtype);
  c.outputs[0] = Empty(c.outputs[0].dims, dtype);
  return {c};
}

inline RandomCase Swap(Draw& draw, const char* op) {
  const Ints dims = draw.Extents(draw.Between(0, 4));
  return {OfAnyType(draw, {op, {}, {Empty(dims)}, {Empty(dims)}, {}, {}})};
}

inline Lookup RandomLookup(Draw& draw) {
  const int64_t rank = draw.Between(1, 4);
  Lookup l;
  l.axis = static_cast<int64_t>(draw.Axis(rank));
  const auto axis = static_cast<size_t>(l.axis);
  do {
    l.whole = draw.Extents(rank, 5000);
    l.part = l.whole;
    l.part[axis] = draw.Percent(5) ? 0 : draw.Extent();
    for (int64_t& extent : l.part)
      if (draw.Percent(15)) extent = std::min(extent, draw.Extent());
  } while (ElementCount(l.part) > 10000 || (l.whole[axis] == 0 && ElementCount(l.part) > 0));
  if (l.whole[axis] == 0) l.part[axis] = 0;
  const bool one_a_row = draw.Coin();
  l.index = l.part;
  for (size_t d = 0; d < l.index.size(); ++d)
    if (d != axis && (one_a_row || draw.Percent(40))) l.index[d] = 1;
  return l;
}
inline TestTensor RandomFlags(Draw& draw, int64_t count) {
  const bool floats = draw.Coin();
  TestTensor t = Empty({count}, floats ? DType::kFloat32 : DType::kBool);
  for (int64_t i = 0; i < count; ++i) {
    const bool live = draw.Percent(70);
    if (floats)
      t.as<float>()[i] = live ? 1.0f : 0.0f;
    else
      t.as<uint8_t>()[i] = live;
  }
  return t;
}
inline RandomCase RandomGather(Draw& draw) {
  const Lookup l = RandomLookup(draw);
  const DType index = draw.Coin() ? DType::kInt64 : DType::kInt32;
  OpCase c = OfAnyType(
      draw, GatherCase(l.whole[static_cast<size_t>(l.axis)] > 0 ? l : Lookup{{1}, {1}, {1}}, index));
  if (draw.Percent(40))
    c.inputs.push_back(RandomFlags(draw, c.outputs[0].dims[static_cast<size_t>(c.attrs.Int("axis"))]));
  return {c};
}
inline RandomCase RandomScatter(Draw& draw) {
  Lookup l = RandomLookup(draw);
  if (l.whole[static_cast<size_t>(l.axis)] == 0) l = {{1}, {1}, {1}};
  const std::string reduction = draw.Of<const char*>({"none", "add", "mul", "min", "max"});
  OpCase c = ScatterCase(l, reduction, draw.Coin());
  if (draw.Percent(40)) {
    if (c.inputs.size() < 3) c.inputs.push_back(Absent());
    c.inputs.push_back(RandomFlags(draw, l.part[static_cast<size_t>(l.axis)]));
  }
  return {c};
}

inline OpCase RandomResizeOf(Draw& draw) {
  const int64_t rank = draw.Between(1, 5);
  Ints in, out, axes;
  std::vector<double> scales, roi;
  do {
    in = draw.Extents(rank, 5000), axes.clear(), scales.clear(), roi.clear();
    if (in[0] == 0) in[0] = 1;
    out = in;
    for (int64_t d = 0; d < rank; ++d) {
      if (!draw.Coin() && !(d + 1 == rank && axes.empty())) continue;
      const auto a = static_cast<size_t>(d);
      double scale = draw.Of<double>({1, 1, 2, 3, .5, .3, 1.7});
      out[a] = std::max<int64_t>(static_cast<int64_t>(scale * static_cast<double>(in[a])), 1);
      // As sizes give it, or as it is, where the extent is its product.
      if (draw.Coin() || scale * static_cast<double>(in[a]) < 1)
        scale = static_cast<double>(out[a]) / static_cast<double>(in[a]);
      axes.push_back(d);
      scales.push_back(scale);
    }
  } while (ElementCount(out) > 10000);
  for (size_t i = 0; i < 2 * axes.size(); ++i)
    roi.push_back(i < axes.size() ? draw.Of<double>({0, .2, -.3}) : draw.Of<double>({1, .7, 1.3}));
  const std::string mode = draw.Of<const char*>({"nearest", "linear", "cubic"});
  OpCase c = Resize(
      in, out, scales, mode,
      draw.Of<const char*>({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                            "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"}),
      draw.Of<const char*>({"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}));
  c.attrs.Set("axes", axes);
  c.attrs.Set("roi", roi);
  c.attrs.Set("antialias", int64_t{draw.Coin()});
  c.attrs.Set("exclude_outside", int64_t{draw.Coin()});
  return c;
}
// Sums of few products in float32.
inline RandomCase RandomResize(Draw& draw) { return {RandomResizeOf(draw), 1e-6, 1}; }
inline RandomCase RandomResizeGrad(Draw& draw) { return {Grad(RandomResizeOf(draw)), 1e-6, 1}; }

// ---- Sequences and updates -----------------------------------------------------------------------

inline RandomCase RandomTopK(Draw& draw) {
  const Ints dims = draw.Extents(draw.Between(1, 4));
  Ints out = dims;
  out.back() = draw.Between(0, dims.back());
  OpCase c{"TopK", {}, {Integers(dims, draw.Seed())}, {Empty(out, DType::kInt64)}, {}, {}};
  c.attrs.Set("largest", int64_t{draw.Coin()});
  c.attrs.Set("last", int64_t{draw.Coin()});
  return {c};
}
inline RandomCase RandomCumSum(Draw& draw) {
  const int64_t rank = draw.Between(1, 4);
  const Ints dims = draw.Extents(rank);
  OpCase c{"CumSum", {}, {Random(dims, draw.Seed())}, {Empty(dims)}, {}, {}};
  c.attrs.Set("axis", static_cast<int64_t>(draw.Axis(rank)));
  c.attrs.Set("exclusive", int64_t{draw.Coin()});
  c.attrs.Set("reverse", int64_t{draw.Coin()});
  return {c};
}

inline TableRows RandomTable(Draw& draw) {
  return {draw.Extents(draw.Between(1, 3)), draw.Percent(5) ? 0 : draw.Extent(),
          draw.Coin() ? DType::kInt64 : DType::kInt32, draw.Coin()};
}
// As update_rows_test.cc.
inline RandomCase RandomUpdateRows(Draw& draw) {
  TableRows t = RandomTable(draw);
  if (t.table[0] == 0) t.indices = 0;
  return {UpdateRowsCase(t, draw.Seed()), 1e-6, 1};
}
// The same arithmetic: the same bits.
inline RandomCase QuantizedRows(Draw& draw, const char* op) {
  TableRows t = RandomTable(draw);
  if (t.table[0] == 0) t.indices = 0;
  return {QuantizedRowsCase(t, draw.Seed(), {op, draw.Coin(), draw.Coin()})};
}
inline RandomCase Quantized(Draw& draw, const char* op) {
  const QuantizedUpdate update{op, draw.Coin(), draw.Coin()};
  return {update.Case(ElementCount(draw.Extents(draw.Between(0, 3))), draw.Seed())};
}

}  // namespace act::random_shapes
