// Operators along one axis: the positions of the largest elements, and running sums.
#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"
#include "runtime/base/dtype_kind.h"

namespace act {
namespace {

// x [.., n] -> index i64 [.., k]: the positions of the k largest elements (smallest if `largest` is
// 0) along the last axis, in order. Of equal elements the earlier one comes first. With `last`
// (k = 1) the last of equal elements is taken.
llvm::Error InferTopK(InferContext& c) {
  const TensorType &x = c.in(0), &y = c.outputs[0];
  if (!IsFloat32OrInteger(x.dtype)) return c.Fail("compares f32 and integers, operand is " + ToString(x));
  if (x.dims.empty() || y.dims.size() != x.dims.size() || y.dtype != DType::kInt64)
    return c.Fail("result " + ToString(y) + " is no index for each row of " + ToString(x));
  for (size_t i = 0; i + 1 < x.dims.size(); ++i)
    if (x.dims[i] != y.dims[i]) return c.Fail("rows of " + ToString(x) + " and " + ToString(y) + " differ");
  const Dim &n = x.dims.back(), &k = y.dims.back();
  if (k == n) return llvm::Error::success();  // sorts the row, however long
  if (!k.IsFixed() || k.fixed < 0 || n.per_batch < 0 || n.per_batch2 < 0 || n.At(1) < k.fixed)
    return c.Fail("asks for " + ToString(k) + " of " + ToString(n) + " elements");
  return llvm::Error::success();
}

Dim TopKFlops(const Node& node, const Graph& graph) { return graph.value(node.inputs[0]).type.Elements(); }

llvm::Error InferCumSum(InferContext& c) {
  const int64_t axis = c.node.attrs.Int("axis", -1);
  if (!IsFloat32OrInteger(c.in(0).dtype))
    return c.Fail("adds f32 and integers, operand is " + ToString(c.in(0)));
  if (axis < 0 || axis >= c.in(0).rank())
    return c.Fail("axis " + std::to_string(axis) + " is outside " + ToString(c.in(0)));
  c.outputs[0] = c.in(0);
  return llvm::Error::success();
}

// Each element is part of its own sum and of all later ones. Its gradient is the sum of theirs.
void CumSumGrad(GradContext& g) {
  Attributes attrs = g.attrs();
  attrs.Set("reverse", int64_t{attrs.Int("reverse") == 0});
  g.SetGrad(0, g.Emit("CumSum", {g.dout()}, attrs));
}

// The wanted type says how many numbers are drawn. They have no gradient.
llvm::Error InferRandom(InferContext& c) {
  if (c.outputs[0].dtype != DType::kFloat32) return c.Fail("draws f32, not " + ToString(c.outputs[0]));
  return llvm::Error::success();
}

}  // namespace

void AddSequenceOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "TopK", .infer = InferTopK, .flops = TopKFlops});
  ops.push_back({.name = "Random", .infer = InferRandom, .random = true});
  ops.push_back({.name = "CumSum", .infer = InferCumSum, .grad = CumSumGrad});
}

}  // namespace act
