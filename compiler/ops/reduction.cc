// Reductions over axes.
#include "compiler/ops/reduction.h"

#include "compiler/ops/grad_context.h"
#include "runtime/base/error.h"

namespace act {

llvm::Expected<Dims> ReducedDims(const InferContext& c) {
  std::vector<bool> reduced(c.in(0).dims.size(), false);
  for (int64_t axis : c.node.attrs.Ints("axes")) {
    if (axis < 0 || axis >= c.in(0).rank())
      return c.Fail("axis " + std::to_string(axis) + " is outside " + ToString(c.in(0)));
    reduced[static_cast<size_t>(axis)] = true;
  }
  const bool keep = c.node.attrs.Int("keepdims", 1) != 0;
  Dims dims;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) dims.push_back(c.in(0).dims[i]);
    if (reduced[i] && keep) dims.push_back(Dim(1));
  }
  return dims;
}

namespace {

llvm::Error InferReduce(InferContext& c) {
  if (c.in(0).dtype != DType::kFloat32) return c.Fail("reduces f32, operand is " + ToString(c.in(0)));
  ACT_TRY(Dims dims, ReducedDims(c));
  c.outputs[0] = {DType::kFloat32, std::move(dims)};
  return llvm::Error::success();
}

Dim Flops(const Node& node, const Graph& graph) { return graph.value(node.inputs[0]).type.Elements(); }

// The dims of x with extent 1 on the reduced axes, from which the gradient broadcasts.
Dims Kept(const GradContext& g) {
  Dims dims = g.type(g.in(0)).dims;
  for (int64_t axis : g.attrs().Ints("axes")) dims[static_cast<size_t>(axis)] = 1;
  return dims;
}

void SumGrad(GradContext& g) {
  const TensorType type = g.type(g.in(0));
  g.SetGrad(0, g.EmitTyped("Expand", {g.ReshapeTo(g.dout(), Kept(g))}, type));
}

void MeanGrad(GradContext& g) {
  const TensorType type = g.type(g.in(0));
  Dim count(1);
  for (int64_t axis : g.attrs().Ints("axes")) count = count * type.dims[static_cast<size_t>(axis)];
  const ValueId spread = g.EmitTyped("Expand", {g.ReshapeTo(g.dout(), Kept(g))}, type);
  Attributes attrs;
  attrs.Set("extent", std::vector<int64_t>{count.fixed, count.per_batch, count.per_batch2});
  g.SetGrad(0, g.Emit("DivideByExtent", {spread}, attrs));
}

// The gradient goes to the elements that equal the maximum, which share it equally.
void MaxGrad(GradContext& g) {
  const TensorType type = g.type(g.in(0));
  const ValueId y = g.DeriveReshape(g.Save(g.out()), Kept(g));
  const ValueId is_max = g.Derive("EqualShare", {g.Save(g.in(0)), y});
  Attributes axes = g.attrs();
  axes.Set("keepdims", int64_t{1});
  const ValueId count = g.Emit("ReduceSum", {is_max}, axes);
  const ValueId share = g.Emit("Div", {g.ReshapeTo(g.dout(), Kept(g)), count});
  g.SetGrad(0, g.Emit("Mul", {is_max, share}));
}

}  // namespace

void AddReductionOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "ReduceSum",
                 .infer = InferReduce,
                 .grad = SumGrad,
                 .flops = Flops,
                 .reduction = Reduction::kSum});
  ops.push_back({.name = "ReduceMean",
                 .infer = InferReduce,
                 .grad = MeanGrad,
                 .flops = Flops,
                 .reduction = Reduction::kMean});
  ops.push_back({.name = "ReduceMax",
                 .infer = InferReduce,
                 .grad = MaxGrad,
                 .flops = Flops,
                 .reduction = Reduction::kMax});
}

}  // namespace act
