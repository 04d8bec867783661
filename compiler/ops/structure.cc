// Operators that move elements and compute nothing.
#include <algorithm>
#include <numeric>

#include "compiler/ops/expr_builder.h"
#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

Dim NoFlops(const Node&, const Graph&) { return 0; }

llvm::Error InferReshape(InferContext& c) {
  const TensorType& to = c.outputs[0];
  if (to.dtype != c.in(0).dtype || to.Elements() != c.in(0).Elements())
    return c.Fail("cannot reshape " + ToString(c.in(0)) + " to " + ToString(to));
  return llvm::Error::success();
}

llvm::Error InferExpand(InferContext& c) {
  const TensorType& to = c.outputs[0];
  const std::optional<Dims> joint = Broadcast(c.in(0).dims, to.dims);
  if (!joint || *joint != to.dims)
    return c.Fail("cannot expand " + ToString(c.in(0)) + " to " + ToString(to));
  return llvm::Error::success();
}

llvm::Error InferTranspose(InferContext& c) {
  const Ints perm = c.node.attrs.Ints("perm");
  Ints sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  Ints all(c.in(0).dims.size());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) return c.Fail("perm is not a permutation of the axes of " + ToString(c.in(0)));
  Dims dims;
  for (int64_t axis : perm) dims.push_back(c.in(0).dims[static_cast<size_t>(axis)]);
  c.outputs[0] = {c.in(0).dtype, dims};
  return llvm::Error::success();
}

llvm::Error InferConcat(InferContext& c) {
  TensorType type = c.in(0);
  const int64_t axis = c.node.attrs.Int("axis", -1);
  if (axis < 0 || axis >= type.rank())
    return c.Fail("axis " + std::to_string(axis) + " is outside " + ToString(type));
  Dim& extent = type.dims[static_cast<size_t>(axis)];
  extent = 0;
  for (const TensorType* in : c.inputs) {
    TensorType same = *in;
    if (same.rank() != type.rank()) return c.Fail("operands have different ranks");
    extent = extent + same.dims[static_cast<size_t>(axis)];
    same.dims[static_cast<size_t>(axis)] = extent;
    if (same != type) return c.Fail("operands do not fit: " + ToString(c.in(0)) + " and " + ToString(*in));
  }
  c.outputs[0] = type;
  return llvm::Error::success();
}

// Does every index of `small` lie inside `large`, axis by axis: starts + (extent - 1) * steps? Axes
// that vary with N must be whole.
llvm::Error CheckSlice(InferContext& c, const TensorType& large, const TensorType& small) {
  const Ints starts = c.node.attrs.Ints("starts"), steps = c.node.attrs.Ints("steps");
  const size_t rank = large.dims.size();
  if (small.dims.size() != rank || starts.size() != rank || steps.size() != rank)
    return c.Fail("starts and steps need one entry per axis");
  for (size_t i = 0; i < rank; ++i) {
    if (large.dims[i] == small.dims[i] && starts[i] == 0 && steps[i] == 1) continue;
    const int64_t last = SaturatingAdd(starts[i], SaturatingMul(small.dims[i].fixed - 1, steps[i]));
    const bool inside =
        starts[i] >= 0 && starts[i] < large.dims[i].fixed && last >= 0 && last < large.dims[i].fixed;
    if (!large.dims[i].IsFixed() || !small.dims[i].IsFixed())
      return c.Fail("axis " + std::to_string(i) + " of " + ToString(large) + " varies with the batch size");
    if (small.dims[i].fixed > 0 && !inside)
      return c.Fail("range of axis " + std::to_string(i) + " is outside " + ToString(large));
  }
  return llvm::Error::success();
}

llvm::Error InferSlice(InferContext& c) { return CheckSlice(c, c.in(0), c.outputs[0]); }
llvm::Error InferSliceGrad(InferContext& c) { return CheckSlice(c, c.outputs[0], c.in(0)); }

llvm::Error InferPad(InferContext& c) {
  TensorType type = c.in(0);
  const Ints pads = c.node.attrs.Ints("pads");
  const size_t rank = type.dims.size();
  if (pads.size() != 2 * rank) return c.Fail("pads needs two entries per axis");
  for (size_t i = 0; i < rank; ++i) {
    type.dims[i] = type.dims[i] + Dim(SaturatingAdd(pads[i], pads[i + rank]));
    if (type.dims[i].fixed < 0) return c.Fail("crops more than there is on axis " + std::to_string(i));
  }
  c.outputs[0] = type;
  return llvm::Error::success();
}

void ReshapeGrad(GradContext& g) { g.SetGrad(0, g.ReshapeTo(g.dout(), g.type(g.in(0)).dims)); }
void ExpandGrad(GradContext& g) { g.SetGrad(0, g.dout()); }  // SetGrad sums back

void TransposeGrad(GradContext& g) {
  const Ints perm = g.attrs().Ints("perm");
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  Attributes attrs;
  attrs.Set("perm", inverse);
  g.SetGrad(0, g.Emit("Transpose", {g.dout()}, attrs));
}

// The part of dy that begins at `at`, a polynomial in N, along an axis.
ValueId PartAlong(GradContext& g, const TensorType& type, size_t axis, const Dim& at) {
  Attributes range, along;
  range.Set("start", Ints{at.fixed, at.per_batch, at.per_batch2});
  range.Set("step", int64_t{1});
  along.Set("axis", static_cast<int64_t>(axis));
  Dims dims(type.dims.size(), Dim(1));
  dims[axis] = type.dims[axis];
  const ValueId places = g.EmitTyped("Range", {}, {DType::kInt64, {type.dims[axis]}}, range);
  const ValueId index = g.EmitTyped("Reshape", {places}, {DType::kInt64, dims}, {});
  return g.EmitTyped("Gather", {g.dout(), index}, type, along);
}

void ConcatGrad(GradContext& g) {
  const auto axis = static_cast<size_t>(g.attrs().Int("axis"));
  if (!g.type(g.out()).dims[axis].IsFixed()) {
    Dim at;
    for (size_t i = 0; i < g.node().inputs.size(); ++i) {
      const TensorType type = g.type(g.in(i));
      if (g.Wants(i)) g.SetGrad(i, PartAlong(g, type, axis, at));
      at = at + type.dims[axis];
    }
    return;
  }
  int64_t at = 0;
  for (size_t i = 0; i < g.node().inputs.size(); ++i) {
    const TensorType type = g.type(g.in(i));
    Attributes attrs;
    Ints starts(type.dims.size(), 0);
    starts[axis] = at;
    attrs.Set("starts", starts);
    attrs.Set("steps", Ints(type.dims.size(), 1));
    if (g.Wants(i)) g.SetGrad(i, g.EmitTyped("Slice", {g.dout()}, type, attrs));
    at += type.dims[axis].fixed;
  }
}

void SliceGrad(GradContext& g) {
  g.SetGrad(0, g.EmitTyped("SliceGrad", {g.dout()}, g.type(g.in(0)), g.attrs()));
}
void SliceGradGrad(GradContext& g) {
  g.SetGrad(0, g.EmitTyped("Slice", {g.dout()}, g.type(g.in(0)), g.attrs()));
}

// x with one axis padded by zeros, or cropped where a pad is negative.
ValueId ZeroPad(GradContext& g, ValueId x, size_t axis, int64_t begin, int64_t end) {
  if (x == kNoValue) return x;
  const size_t rank = g.type(x).dims.size();
  Ints pads(2 * rank, 0);
  pads[axis] = begin;
  pads[axis + rank] = end;
  Attributes attrs;
  attrs.Set("pads", pads);
  attrs.Set("mode", std::string("constant"));
  return g.Emit("Pad", {x}, attrs);
}

// `extent` elements of one axis, beginning at `start`, in steps of `step`.
ValueId SliceAxis(GradContext& g, ValueId x, size_t axis, int64_t start, int64_t extent, int64_t step) {
  TensorType type = g.type(x);
  Ints starts(type.dims.size(), 0), steps(type.dims.size(), 1);
  starts[axis] = start;
  steps[axis] = step;
  type.dims[axis] = extent;
  Attributes attrs;
  attrs.Set("starts", starts);
  attrs.Set("steps", steps);
  return g.EmitTyped("Slice", {x}, type, attrs);
}

// Undoes the padding of one axis from `n` elements. The gradient of each copy is added to that of
// the copied element.
ValueId UnpadAxis(GradContext& g, ValueId dy, size_t axis, int64_t n, int64_t begin, int64_t end,
                  bool reflect) {
  ValueId dx = ZeroPad(g, dy, axis, -begin, -end);
  const auto add = [&](ValueId border, int64_t before, int64_t after) {
    if (border == kNoValue) return;
    if (!reflect) {  // edge: all copies are of one element
      border = g.Emit("ReduceSum", {border}, Over({static_cast<int64_t>(axis)}, true));
    }
    border = ZeroPad(g, border, axis, before, after);
    if (border != kNoValue) dx = g.Emit("Add", {dx, border});
  };
  // With mirroring, the border before the elements, read backward, is elements 1, 2, .., and the
  // border after them, read backward, ends with n - 2.
  if (begin > 0 && reflect) add(SliceAxis(g, dy, axis, begin - 1, begin, -1), 1, n - 1 - begin);
  if (begin > 0 && !reflect) add(SliceAxis(g, dy, axis, 0, begin, 1), 0, n - 1);
  if (end > 0 && reflect) add(SliceAxis(g, dy, axis, begin + n + end - 1, end, -1), n - 1 - end, 1);
  if (end > 0 && !reflect) add(SliceAxis(g, dy, axis, begin + n, end, 1), n - 1, 0);
  return dx;
}

void PadGrad(GradContext& g) {
  const Ints pads = g.attrs().Ints("pads");
  const std::string mode = g.attrs().String("mode", "constant");
  const Dims dims = g.type(g.in(0)).dims;
  const size_t rank = dims.size();
  if (mode == "constant") {  // crop
    Attributes attrs;
    Ints crop = pads;
    for (int64_t& p : crop) p = -p;
    attrs.Set("pads", crop);
    attrs.Set("mode", mode);
    return g.SetGrad(0, g.Emit("Pad", {g.dout()}, attrs));
  }
  ValueId dx = g.dout();
  for (size_t axis = 0; axis < rank && dx != kNoValue; ++axis)
    if (pads[axis] != 0 || pads[axis + rank] != 0)
      dx = UnpadAxis(g, dx, axis, dims[axis].fixed, pads[axis], pads[axis + rank], mode == "reflect");
  g.SetGrad(0, dx);
}

}  // namespace

void AddStructureOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "Reshape",
                 .infer = InferReshape,
                 .grad = ReshapeGrad,
                 .flops = NoFlops,
                 .movement = Movement::kReshape});
  ops.push_back({.name = "Expand",
                 .infer = InferExpand,
                 .grad = ExpandGrad,
                 .expr = [](ExprBuilder&, const Node&, const Regs& r) { return r[0]; },
                 .flops = NoFlops,
                 .movement = Movement::kRepeat,
                 .squares = Squares::kByElements});
  ops.push_back({.name = "Transpose",
                 .infer = InferTranspose,
                 .grad = TransposeGrad,
                 .flops = NoFlops,
                 .movement = Movement::kTranspose,
                 .onnx = SameInOnnx});
  ops.push_back({.name = "Concat",
                 .infer = InferConcat,
                 .grad = ConcatGrad,
                 .flops = NoFlops,
                 .movement = Movement::kConcat,
                 .onnx = SameInOnnx});
  ops.push_back({.name = "Slice",
                 .infer = InferSlice,
                 .grad = SliceGrad,
                 .flops = NoFlops,
                 .movement = Movement::kSlice,
                 .squares = Squares::kByElements});
  ops.push_back({.name = "SliceGrad",
                 .infer = InferSliceGrad,
                 .grad = SliceGradGrad,
                 .flops = NoFlops,
                 .gradient = true,
                 .movement = Movement::kPlace});
  ops.push_back(
      {.name = "Pad", .infer = InferPad, .grad = PadGrad, .flops = NoFlops, .movement = Movement::kPad});
}

}  // namespace act
