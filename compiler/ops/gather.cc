// Lookup by data: takes elements from the places that an index tensor names, or combines elements
// into them.
#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"
#include "runtime/base/dtype_kind.h"

namespace act {
namespace {

Dim NoFlops(const Node&, const Graph&) { return 0; }

// Checks the types of a lookup. `part` holds the elements of `whole` that `index` names along the
// attribute `axis`. On that axis `part` has the extent of `index`. On each other axis it has at
// most the extent of `whole`, and `index` broadcasts there.
llvm::Error CheckLookup(InferContext& c, const TensorType& whole, const TensorType& part,
                        const TensorType& index, size_t live) {
  const auto fail = [&](const std::string& what) {
    return c.Fail(what + ": " + ToString(index) + " names elements of " + ToString(whole) + " for " +
                  ToString(part));
  };
  const int64_t axis = c.node.attrs.Int("axis", -1);
  if (axis < 0 || axis >= whole.rank())
    return c.Fail("axis " + std::to_string(axis) + " is outside " + ToString(whole));
  if (index.dtype != DType::kInt64 && index.dtype != DType::kInt32) return fail("an index is i64 or i32");
  if (whole.dtype != part.dtype) return fail("the element types differ");
  if (part.rank() != whole.rank() || index.rank() != whole.rank()) return fail("the ranks differ");
  for (size_t d = 0; d < whole.dims.size(); ++d) {
    const bool along = static_cast<int64_t>(d) == axis;
    const Dim &w = whole.dims[d], &p = part.dims[d], &i = index.dims[d];
    const bool inside = w == p || (w.IsFixed() && p.IsFixed() && p.fixed <= w.fixed);
    if (i != p && (along || i != Dim(1))) return fail("the index does not fit axis " + std::to_string(d));
    if (!along && !inside) return fail("more is asked for than there is on axis " + std::to_string(d));
  }
  if (c.Has(live)) {
    const TensorType& flags = c.in(live);
    if ((flags.dtype != DType::kBool && flags.dtype != DType::kFloat32) ||
        flags.dims != Dims{part.dims[static_cast<size_t>(axis)]})
      return c.Fail("live is " + ToString(flags) + ", must be one flag for each index along the axis of " +
                    ToString(part));
  }
  return llvm::Error::success();
}

llvm::Error InferGather(InferContext& c) { return CheckLookup(c, c.in(0), c.outputs[0], c.in(1), 2); }

llvm::Error InferScatter(InferContext& c) {
  const std::string reduction = c.node.attrs.String("reduction", "none");
  if (reduction != "none" && !IsFloat32OrInteger(c.in(0).dtype))
    return c.Fail("reduction '" + reduction + "' is for f32 and integers, the updates are " +
                  ToString(c.in(0)));
  if (reduction != "none" && reduction != "add" && reduction != "mul" && reduction != "min" &&
      reduction != "max")
    return c.Fail("there is no reduction '" + reduction + "'");
  if (c.Has(2) && c.in(2) != c.outputs[0])
    return c.Fail("result " + ToString(c.outputs[0]) + " must have the type of x, " + ToString(c.in(2)));
  return CheckLookup(c, c.outputs[0], c.in(0), c.in(1), 3);
}

// x [.., K] -> [..]: joins the K indices of a tuple into one index over the K axes together.
llvm::Error InferFlatIndex(InferContext& c) {
  const TensorType& tuples = c.in(0);
  const auto extents = c.node.attrs.Ints("extents");  // three for each axis: the polynomial in N
  if (tuples.dtype != DType::kInt64 && tuples.dtype != DType::kInt32)
    return c.Fail("an index is i64 or i32, it is " + ToString(tuples));
  if (tuples.dims.empty() || extents.empty() || extents.size() % 3 != 0 ||
      tuples.dims.back() != Dim(static_cast<int64_t>(extents.size() / 3)))
    return c.Fail("extents do not fit tuples " + ToString(tuples));
  c.outputs[0] = {DType::kInt64, {tuples.dims.begin(), tuples.dims.end() - 1}};
  return llvm::Error::success();
}

// x -> coordinates i64 [rank, elements of x], live bool [elements of x]
llvm::Error InferNonZero(InferContext& c) {
  if (c.outputs.size() != 2) return c.Fail("makes coordinates and flags");
  c.outputs[0] = {DType::kInt64, {c.in(0).rank(), c.in(0).Elements()}};
  c.outputs[1] = {DType::kBool, {c.in(0).Elements()}};
  return llvm::Error::success();
}

// start + step i, where start is a polynomial in N.
llvm::Error InferRange(InferContext& c) {
  if (c.node.attrs.Ints("start").size() != 3)
    return c.Fail("start is a polynomial in the batch size: three numbers");
  if (c.outputs[0].dtype != DType::kInt64 || c.outputs[0].dims.size() != 1)
    return c.Fail("makes an i64 vector, its result is " + ToString(c.outputs[0]));
  return llvm::Error::success();
}

Attributes WithReduction(const GradContext& g, const std::string& reduction) {
  Attributes attrs;
  attrs.Set("axis", g.attrs().Int("axis"));
  attrs.Set("reduction", reduction);
  return attrs;
}

// One flag for each index: whether it differs from `padding`.
ValueId OtherThan(GradContext& g, ValueId index, int64_t padding) {
  const ValueId is_padding = g.Derive("Equal", {index, g.Scalar(static_cast<float>(padding))});
  const auto axis = static_cast<size_t>(g.attrs().Int("axis"));
  return g.DeriveReshape(g.Derive("Equal", {is_padding, g.Scalar(0)}), {g.type(g.out()).dims[axis]});
}

// A table may have a row for padding that does not train: padding_index (PyTorch's padding_idx).
void GatherGrad(GradContext& g) {
  const ValueId index = g.Save(g.in(1));
  std::vector<ValueId> inputs{g.dout(), index};
  if (g.in(2) != kNoValue) {
    inputs.insert(inputs.end(), {kNoValue, g.Save(g.in(2))});
  } else if (g.attrs().Has("padding_index")) {
    inputs.insert(inputs.end(), {kNoValue, OtherThan(g, index, g.attrs().Int("padding_index"))});
  }
  g.SetGrad(0, g.EmitTyped("Scatter", inputs, g.type(g.in(0)), WithReduction(g, "add")));
}

// The gradient of a Scatter by min or max. Elements that equal the result share
// its gradient equally.
void ScatterWinnerGrad(GradContext& g, ValueId index, ValueId live) {
  const TensorType whole = g.type(g.out()), part = g.type(g.in(0));
  const ValueId x = g.in(2), y = g.Save(g.out());
  const ValueId won = g.Derive("EqualShare", {x == kNoValue ? g.Scalar(0) : g.Save(x), y});
  const ValueId best = g.DeriveTyped("Gather", {y, index}, part, g.attrs());
  const ValueId update_won = g.Derive("EqualShare", {g.Save(g.in(0)), best});
  const ValueId winners =
      g.EmitTyped("Scatter", {update_won, index, won, live}, whole, WithReduction(g, "add"));
  const ValueId share = g.Emit("Div", {g.dout(), winners});
  if (g.Wants(2)) g.SetGrad(2, g.Emit("Mul", {share, won}));
  if (g.Wants(0))
    g.SetGrad(0, g.Emit("Mul", {g.EmitTyped("Gather", {share, index, live}, part, g.attrs()), update_won}));
}

void ScatterGrad(GradContext& g) {
  const std::string reduction = g.attrs().String("reduction", "none");
  if (reduction == "mul") return g.Fail("a gradient through a scatter with reduction 'mul' is not supported");
  const ValueId index = g.Save(g.in(1));
  const ValueId live = g.in(3) == kNoValue ? kNoValue : g.Save(g.in(3));
  if (reduction == "min" || reduction == "max") return ScatterWinnerGrad(g, index, live);
  const TensorType part = g.type(g.in(0));
  if (g.Wants(0)) g.SetGrad(0, g.EmitTyped("Gather", {g.dout(), index, live}, part, g.attrs()));
  if (!g.Wants(2)) return;
  if (reduction == "add") return g.SetGrad(2, g.dout());
  const ValueId zeros =
      // Overwritten elements have no part in the result.
      g.EmitTyped("Expand", {g.Scalar(0)}, part);
  g.SetGrad(
      2, g.EmitTyped("Scatter", {zeros, index, g.dout(), live}, g.type(g.in(2)), WithReduction(g, "none")));
}

Dim ScatterFlops(const Node& node, const Graph& graph) {
  return node.attrs.String("reduction", "none") == "none" ? Dim(0)
                                                          : graph.value(node.inputs[0]).type.Elements();
}

}  // namespace

void AddGatherOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "Gather",
                 .infer = InferGather,
                 .grad = GatherGrad,
                 .flops = NoFlops,
                 .movement = Movement::kGather});
  ops.push_back({.name = "Scatter",
                 .infer = InferScatter,
                 .grad = ScatterGrad,
                 .flops = ScatterFlops,
                 .in_place = {{0, 2}}});
  ops.push_back({.name = "NonZero", .infer = InferNonZero, .flops = NoFlops});
  ops.push_back({.name = "FlatIndex", .infer = InferFlatIndex, .flops = NoFlops});
  ops.push_back({.name = "Range", .infer = InferRange, .flops = NoFlops});
}

}  // namespace act
