// Dropout, and the masks that exporters build from random numbers (stochastic depth).
#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

llvm::Expected<ValueId> Dropout(NodeContext& c, ValueId x, double probability) {
  Attributes attrs;
  attrs.Set("probability", probability);
  // A gradient in the model reads the mask. It draws the mask again, by this number.
  if (c.WantsOutput(1)) attrs.Set("mask", static_cast<int64_t>(c.builder().graph().nodes.size()));
  return c.Emit("Dropout", {x}, attrs);
}

// From opset 12 on the inputs are (x, ratio, training_mode). Before, the ratio is an attribute, and
// the operator is always in training mode.
llvm::Error ImportDropout(NodeContext& c) {
  double ratio = c.attrs.Float("ratio", .5);
  bool training = true;
  if (c.opset() >= 12) {
    if (c.Has(1)) {
      const auto number = c.Number(1);
      if (!number) return c.Fail("the ratio must be a constant");
      ratio = *number;
    }
    const auto mode = c.Number(2);
    if (c.Has(2) && !mode) return c.Fail("training_mode must be a constant");
    training = mode.value_or(0) != 0;
  }
  if (!(ratio >= 0 && ratio < 1))
    return c.Fail("the ratio must be in [0, 1), it is " + std::to_string(ratio));
  const TensorType mask{DType::kBool, c.DimsOf(0)};
  if (!training || ratio == 0) {
    if (c.In(0).value != kNoValue) ACT_CHECK_OK(c.Set(1, Operand{.type = mask, .kept = c.In(0).value}));
    return c.Set(0, Operand(c.In(0)));
  }
  ACT_TRY(const ValueId x, c.Value(0));
  ACT_TRY(const ValueId y, Dropout(c, x, ratio));
  ACT_CHECK_OK(c.Set(1, Operand{.type = mask, .kept = y}));
  return c.Set(0, y);
}

// Random numbers are no value of the graph; only their comparison with a threshold is one.
llvm::Error ImportRandomUniformLike(NodeContext& c) {
  const double low = c.attrs.Float("low", 0), high = c.attrs.Float("high", 1);
  if (!(low < high)) return c.Fail("low must be below high");
  Operand random;
  random.type = {DType::kFloat32, c.DimsOf(0)};
  random.uniform = {low, high};
  return c.Set(0, std::move(random));
}

// uniform < p is 1 with probability p: a dropout of ones that keeps p of them and does not
// scale them by 1 / p. In evaluation the mask is p, so dividing by p, as exporters do next, gives 1.
llvm::Error ImportLess(NodeContext& c) {
  if (!c.In(0).uniform) {
    if (c.In(1).uniform) return c.Fail("compares random numbers in a way that is no dropout mask");
    return c.Return(c.EmitBinary("Less"));
  }
  const auto threshold = c.Number(1);
  if (!threshold) return c.Fail("compares random numbers with something that is not a constant");
  const auto [low, high] = *c.In(0).uniform;
  const double keep = (*threshold - low) / (high - low);
  if (!(keep > 0 && keep <= 1)) return c.Fail("a mask that is always 0 or ill-defined");
  ACT_TRY(ValueId mask, c.builder().Expand(c.builder().Scalar(1), c.DimsOf(0), c.name()));
  if (keep == 1) return c.Set(0, mask);
  ACT_TRY(mask, Dropout(c, mask, 1 - keep));
  return c.Return(c.Emit("Mul", {mask, c.builder().Scalar(static_cast<float>(keep))}));
}

}  // namespace

const std::vector<ImportEntry>& RandomImports() {
  static const std::vector<ImportEntry> entries = {
      {"Dropout", 1, 3, ImportDropout},
      {"RandomUniformLike", 1, 1, ImportRandomUniformLike},
      {"Less", 2, 2, ImportLess},
  };
  return entries;
}

}  // namespace act::onnx_import
