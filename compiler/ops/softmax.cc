// Softmax and its logarithm, over the last axis.
#include <algorithm>

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

// The sums of dy along its last axis. A sum of logarithms over the classes (label smoothing) hands the same dy to
// all of them: then the sum is a multiple, and needs no dy of their size.
llvm::Expected<ValueId> SumsOfRows(GraphBuilder& b, ValueId dy, const std::string& name) {
  const Dims dims = b.type(dy).dims;
  const auto& nodes = b.graph().nodes;
  const auto maker = std::find_if(nodes.rbegin(), nodes.rend(), [dy](const Node& node) {
    return std::find(node.outputs.begin(), node.outputs.end(), dy) != node.outputs.end();
  });
  Dims row = dims;
  row.back() = Dim(1);
  if (maker != nodes.rend() && OpOf(*maker).movement == Movement::kRepeat && dims.back().IsFixed() &&
      b.type(maker->inputs[0]).dims == row) {
    const ValueId one = maker->inputs[0], count = b.Scalar(static_cast<float>(dims.back().fixed));
    return b.Add1("Mul", {one, count}, {}, name);
  }
  return b.Add1("ReduceSum", {dy}, Over({static_cast<int64_t>(dims.size()) - 1}, true), name);
}

// dx = dy - softmax(x) sum(dy)
void LogSoftmaxGrad(GradContext& g) {
  const ValueId probability = g.Derive("Softmax", {g.Save(g.in(0))});
  const ValueId sum =
      g.Build([&g](GraphBuilder& b) { return SumsOfRows(b, g.dout(), g.node().name + ".grad"); });
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
