// The cross entropy loss and its gradient, and the number of correct predictions.
#include "compiler/ops/loss.h"

#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

llvm::Error CheckLabels(InferContext& c, const TensorType& logits, const TensorType& label) {
  if (logits.rank() < 1) return c.Fail("scores need a class axis");
  Dims want(logits.dims.begin(), logits.dims.end() - 1);
  if (label.dims != want || (label.dtype != DType::kInt64 && label.dtype != DType::kInt32))
    return c.Fail("labels are " + ToString(label) + ", must be i64" + ToString(want) + " for scores " +
                  ToString(logits) + " (classes last)");
  return llvm::Error::success();
}

llvm::Error InferLoss(InferContext& c) {
  if (c.Has(2) && c.in(2).dims != Dims{c.in(0).dims.back()})
    return c.Fail("class weights do not fit the classes");
  c.outputs[0] = {DType::kFloat32, {}};
  if (c.outputs.size() > 1) c.outputs[1] = c.in(0);
  return CheckLabels(c, c.in(0), c.in(1));
}

llvm::Error InferGrad(InferContext& c) {
  c.outputs[0] = c.in(1);
  return CheckLabels(c, c.in(1), c.in(2));
}

llvm::Error InferDenominator(InferContext& c) {
  c.outputs[0] = {DType::kFloat32, {}};
  return llvm::Error::success();
}

llvm::Error InferCount(InferContext& c) {
  c.outputs[0] = {DType::kFloat32, {}};
  return CheckLabels(c, c.in(0), c.in(1));
}

// Saves the probabilities and not the scores. The gradient is linear in the probabilities, so a
// lossy code of them leaves it unbiased.
void LossGrad(GradContext& g) {
  std::vector<ValueId> inputs{g.dout(), g.Save(g.out(1)), g.Save(g.in(1))};
  if (g.in(2) != kNoValue) inputs.push_back(g.Save(g.in(2)));
  g.SetGrad(0, g.Emit("SoftmaxCrossEntropyGrad", inputs, g.attrs()));
}

}  // namespace

llvm::Expected<ValueId> AddLossDenominator(GraphBuilder& builder, const Attributes& loss, ValueId label,
                                           ValueId weight, int64_t classes, const std::string& name) {
  Attributes attrs;
  attrs.Set("classes", classes);
  if (loss.Has("ignore_index")) attrs.Set("ignore_index", loss.Int("ignore_index"));
  std::vector<ValueId> operands{label};
  if (weight != kNoValue) operands.push_back(weight);
  return builder.Add1(kLossDenominator, std::move(operands), std::move(attrs), name);
}

void AddLossOps(std::vector<OpDef>& ops) {
  ops.push_back(
      {.name = "SoftmaxCrossEntropy",
       .infer = InferLoss,
       .grad = LossGrad,
       .flops = [](const Node& n, const Graph& g) { return g.value(n.inputs[0]).type.Elements() * Dim(4); },
       .in_place = {{1, 0}},
       .loss = true,
       .values = Values::kProbability});
  // labels, weights of classes
  ops.push_back({.name = kLossDenominator, .infer = InferDenominator});
  // dy, probabilities, labels, weights of classes, denominator
  ops.push_back({.name = "SoftmaxCrossEntropyGrad",
                 .infer = InferGrad,
                 .in_place = {{0, 1}},
                 .loss_gradient = true,
                 .gradient = true,
                 .needs = {Need::kNumbers, Need::kNumbers, Need::kStatistics}});
  ops.push_back({.name = "CountCorrect", .infer = InferCount});
}

}  // namespace act
