// Optimizer updates: they write parameters and optimizer state in place.
#include "compiler/ops/op_table.h"

namespace act {
namespace {

llvm::Error InferUpdate(InferContext& c) {
  for (size_t i = 1; i < c.inputs.size(); ++i)
    if (!c.Has(i) || c.in(i) != c.in(0))
      return c.Fail("parameter, state and gradient must have the same type, got " + ToString(c.in(0)) +
                    " and " + (c.Has(i) ? ToString(c.in(i)) : "nothing"));
  return llvm::Error::success();
}

}  // namespace

void AddUpdateOps(std::vector<OpDef>& ops) {
  // parameter, velocity, gradient
  ops.push_back(
      {.name = "SgdUpdate",
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = InferUpdate,
       .flops = [](const Node& n, const Graph& g) { return g.value(n.inputs[0]).type.Elements() * Dim(6); },
       .mutates = {0, 1}});
}

}  // namespace act
