#include "compiler/import/training/gradient_rules.h"

#include <algorithm>

#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"

namespace act::onnx_import {

Node Forward(const char* op, Values inputs, ValueId result, Attributes attrs) {
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = {result};
  node.attrs = std::move(attrs);
  return node;
}

llvm::Expected<Values> ApplyRule(NodeContext& c, Node node, Values output_grads, std::vector<bool> wanted) {
  output_grads.resize(node.outputs.size(), kNoValue);
  for (size_t i = 0; i < output_grads.size(); ++i)
    if (output_grads[i] != kNoValue && c.TypeOf(output_grads[i]) != c.TypeOf(node.outputs[i]))
      return c.Fail("the gradient is " + ToString(c.TypeOf(output_grads[i])) + ", what it belongs to is " +
                    ToString(c.TypeOf(node.outputs[i])));
  node.name = c.name();
  std::vector<ValueId> saved;
  const auto* def = FindOp(node.op);
  GradContext context(c.builder(), node, std::move(output_grads), std::move(wanted), true, saved);
  def->grad(context);
  ACT_CHECK_OK(context.TakeError());
  return context.grads();
}

llvm::Expected<Node> MakerOfKept(NodeContext& c, size_t i, const char* op) {
  const ValueId kept = c.In(i).kept;
  for (const Node& node : c.builder().graph().nodes)
    if (kept != kNoValue && node.op == op &&
        std::find(node.outputs.begin(), node.outputs.end(), kept) != node.outputs.end())
      return node;
  return c.Fail("input " + std::to_string(i) + " does not come from a " + op);
}

llvm::Expected<Node> ForwardNode(NodeContext& c, const char* op) {
  const std::string name = c.name().substr(0, c.name().rfind("_Grad/"));
  for (const Node& node : c.builder().graph().nodes)
    if (node.op == op && node.name == name) return node;
  return c.Fail("there is no node '" + name + "' of which it is the gradient",
                "ONNX Runtime names the gradient of a node P P_Grad/...");
}

}  // namespace act::onnx_import
