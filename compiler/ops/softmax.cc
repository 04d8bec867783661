// Softmax and its logarithm, over the last axis.
#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"

namespace act {
namespace {

llvm::Error Infer(InferContext& c) {
  if (c.in(0).rank() < 1 || c.in(0).dtype != DType::kFloat32)
    return c.Fail("takes an f32 tensor of rank 1 at least, not " + ToString(c.in(0)));
  c.outputs[0] = c.in(0);
  return llvm::Error::success();
}

llvm::Error InferGrad(InferContext& c) {
  if (c.in(0) != c.in(1))
    return c.Fail("operands " + ToString(c.in(0)) + " and " + ToString(c.in(1)) + " differ");
  return Infer(c);
}

// dx = y (dy - sum(dy y)). This is quadratic in y, which is therefore read exactly.
void SoftmaxGrad(GradContext& g) { g.SetGrad(0, g.Emit("SoftmaxGrad", {g.dout(), g.Save(g.out())})); }

// dx = dy - softmax(x) sum(dy)
void LogSoftmaxGrad(GradContext& g) {
  const ValueId probability = g.Derive("Softmax", {g.Save(g.in(0))});
  const ValueId sum = g.Emit("ReduceSum", {g.dout()}, Over({g.type(g.in(0)).rank() - 1}, true));
  g.SetGrad(0, g.Emit("Sub", {g.dout(), g.Emit("Mul", {probability, sum})}));
}

Dim Flops(const Node& node, const Graph& graph) {
  return graph.value(node.inputs[0]).type.Elements() * Dim(4);
}

}  // namespace

void AddSoftmaxOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "Softmax", .infer = Infer, .grad = SoftmaxGrad, .flops = Flops, .nonlinear = true});
  ops.push_back({.name = "LogSoftmax", .infer = Infer, .grad = LogSoftmaxGrad, .flops = Flops});
  ops.push_back({.name = "SoftmaxGrad",
                 .infer = InferGrad,
                 .flops = Flops,
                 .gradient = true,
                 .needs = {Need::kNumbers, Need::kExactly}});
}

}  // namespace act
