// Exact integer arithmetic, which fused loops lack.
#include "runtime/plan/integer_op.h"

#include "compiler/ops/reduction.h"
#include "runtime/base/dtype_kind.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// Operands have one integer type and broadcast as in numpy, an `expand` to the wanted result. The
// condition of a select may have another type.
llvm::Error InferInteger(InferContext& c) {
  const IntegerOp* op = FindIntegerOp(c.node.attrs.String("op"));
  if (!op) return c.Fail("there is no operation '" + c.node.attrs.String("op") + "'");
  if (static_cast<int>(c.inputs.size()) != op->operands)
    return c.Fail("'" + c.node.attrs.String("op") + "' takes " + std::to_string(op->operands) + " operands");
  const size_t first = op->code == IntegerOpcode::kSelect ? 1 : 0;
  Dims dims;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.Has(i)) return c.Fail("an operand is left out");
    if (IsFloat(c.in(i).dtype) || (i >= first && c.in(i).dtype != c.in(first).dtype))
      return c.Fail("takes integers of one type, operand " + std::to_string(i) + " is " + ToString(c.in(i)));
    const std::optional<Dims> joint = Broadcast(dims, c.in(i).dims);
    if (!joint)
      return c.Fail("shapes do not broadcast: " + ToString(dims) + " and " + ToString(c.in(i).dims));
    dims = *joint;
  }
  if (op->repeats) {
    const std::optional<Dims> joint = Broadcast(dims, c.outputs[0].dims);
    if (joint != c.outputs[0].dims || c.outputs[0].dtype != c.in(0).dtype)
      return c.Fail("cannot expand " + ToString(c.in(0)) + " to " + ToString(c.outputs[0]));
    return llvm::Error::success();
  }
  DType result = op->boolean ? DType::kBool : c.in(first).dtype;
  if (op->code == IntegerOpcode::kCast) {
    const int64_t to = c.node.attrs.Int("to", -1);
    if (to < 0 || to > static_cast<int64_t>(kLastDType) || IsFloat(static_cast<DType>(to)))
      return c.Fail("casts to integer types alone");
    result = static_cast<DType>(to);
  }
  c.outputs[0] = {result, dims};
  return llvm::Error::success();
}

llvm::Error InferIntegerReduce(InferContext& c) {
  const IntegerReduction* reduction = FindIntegerReduction(c.node.attrs.String("op"));
  if (!reduction) return c.Fail("there is no reduction '" + c.node.attrs.String("op") + "'");
  const DType dtype = c.in(0).dtype;
  if (IsFloat(dtype) || (dtype == DType::kBool && !reduction->of_flags))
    return c.Fail("'" + c.node.attrs.String("op") + "' takes integers, operand is " + ToString(c.in(0)));
  ACT_TRY(Dims dims, ReducedDims(c));
  c.outputs[0] = {dtype, std::move(dims)};
  return llvm::Error::success();
}

Dim ReduceFlops(const Node& node, const Graph& graph) { return graph.value(node.inputs[0]).type.Elements(); }

}  // namespace

void AddIntegerOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "Integer", .infer = InferInteger});
  ops.push_back({.name = "IntegerReduce", .infer = InferIntegerReduce, .flops = ReduceFlops});
}

}  // namespace act
