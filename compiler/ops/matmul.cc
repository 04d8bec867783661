// Matrix multiplication of any rank with broadcast batch axes, and an optional bias [columns].
#include <algorithm>

#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// Rows and columns of an operand, transposed if its flag asks for it.
struct Matrix {
  Dims batch;
  Dim rows, columns;
};

Matrix MatrixOf(const TensorType& type, bool transposed) {
  const size_t r = type.dims.size();
  Matrix m{{type.dims.begin(), type.dims.end() - 2}, type.dims[r - 2], type.dims[r - 1]};
  if (transposed) std::swap(m.rows, m.columns);
  return m;
}

llvm::Error Infer(InferContext& c) {
  ACT_CHECK_OK(c.CheckFloats());
  if (c.in(0).rank() < 2 || c.in(1).rank() < 2) return c.Fail("operands need rank 2 at least");
  const Matrix a = MatrixOf(c.in(0), c.node.attrs.Int("trans_a") != 0);
  const Matrix b = MatrixOf(c.in(1), c.node.attrs.Int("trans_b") != 0);
  const std::optional<Dims> batch = Broadcast(a.batch, b.batch);
  if (a.columns != b.rows || !batch)
    return c.Fail("operands do not fit: " + ToString(c.in(0)) + " and " + ToString(c.in(1)));
  Dims dims = *batch;
  dims.push_back(a.rows);
  dims.push_back(b.columns);
  if (c.Has(2) && (c.in(2).dtype != DType::kFloat32 || c.in(2).dims != Dims{b.columns}))
    return c.Fail("bias " + ToString(c.in(2)) + " is not f32[" + ToString(b.columns) + "]");
  c.outputs[0] = {DType::kFloat32, dims};
  return llvm::Error::success();
}

Dim Flops(const Node& node, const Graph& graph) {
  const Matrix a = MatrixOf(graph.value(node.inputs[0]).type, node.attrs.Int("trans_a") != 0);
  return graph.value(node.outputs[0]).type.Elements() * a.columns * Dim(2);
}

ValueId Product(GradContext& g, ValueId a, bool trans_a, ValueId b, bool trans_b) {
  Attributes attrs;
  attrs.Set("trans_a", int64_t{trans_a});
  attrs.Set("trans_b", int64_t{trans_b});
  return g.Emit("MatMul", {a, b}, attrs);
}

// For a weight [K, M] shared by many leading axes. Its gradient is one product over all of them and
// not a sum of small ones.
ValueId Rows(GradContext& g, ValueId x) {
  const Dims dims = g.type(x).dims;
  Dim rows(1);
  for (size_t i = 0; i + 1 < dims.size(); ++i) rows = rows * dims[i];
  return g.ReshapeTo(x, {rows, dims.back()});
}

// y = A B with A = a or a^T, B = b or b^T: dA = dy B^T, dB = A^T dy. Where an operand is
// transposed, its gradient is too.
void Grad(GradContext& g) {
  const bool ta = g.attrs().Int("trans_a") != 0, tb = g.attrs().Int("trans_b") != 0;
  const ValueId a = g.in(0), b = g.in(1);
  const bool flat = g.type(b).rank() == 2 && g.type(a).rank() > 2 && !ta;
  if (g.Wants(1)) {
    const ValueId saved = flat ? g.DeriveRows(g.Save(a)) : g.Save(a);
    const ValueId dy = flat ? Rows(g, g.dout()) : g.dout();
    g.SetGrad(1, tb ? Product(g, dy, true, saved, ta) : Product(g, saved, !ta, dy, false));
  }
  if (g.Wants(0)) {
    const ValueId saved = g.Save(b);
    g.SetGrad(0, ta ? Product(g, saved, tb, g.dout(), true) : Product(g, g.dout(), false, saved, !tb));
  }
  if (g.Wants(2)) {
    g.SetGrad(2, g.Emit("ReduceSum", {Rows(g, g.dout())}, Over({0}, false)));
  }
}

// ONNX's operator has neither a bias nor transposed operands.
OnnxTwin Twin(const Node& node) {
  const bool plain = node.attrs.Int("trans_a") == 0 && node.attrs.Int("trans_b") == 0;
  return plain && node.inputs.size() == 2 ? OnnxTwin::kWithoutAttributes : OnnxTwin::kNone;
}

}  // namespace

void AddMatMulOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "MatMul",
                 .infer = Infer,
                 .grad = Grad,
                 .flops = Flops,
                 .product = Product::kMatrix,
                 .needs = {Need::kProduct},
                 .onnx = Twin});
}

}  // namespace act
