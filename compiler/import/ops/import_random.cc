// Dropout, random numbers, and the masks that exporters build from them (stochastic depth).
#include "compiler/import/ops/random_draw.h"

#include "compiler/import/known/onnx_types.h"
#include "compiler/ops/op_table.h"

namespace act::onnx_import {
namespace {

llvm::Expected<ValueId> Dropout(const NodeContext& c, ValueId x, double probability) {
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

// The type of the random numbers: that of input 0 (..Like), or `shape`.
llvm::Expected<TensorType> TypeDrawn(const NodeContext& c) {
  const DType dtype = c.Has(0) ? c.Type(0).dtype : DType::kFloat32;
  const auto drawn = c.attrs.Has("dtype") ? FromOnnxType(c.attrs.Int("dtype")) : dtype;
  if (!drawn || !IsFloat(*drawn)) return c.Fail("draws numbers that are not floats");
  if (c.Has(0)) return TensorType{DType::kFloat32, c.DimsOf(0)};
  const std::vector<int64_t> shape = c.attrs.Ints("shape");
  return TensorType{DType::kFloat32, {shape.begin(), shape.end()}};
}

llvm::Error ImportRandomUniform(NodeContext& c) {
  const double low = c.attrs.Float("low", 0), high = c.attrs.Float("high", 1);
  if (!(low < high)) return c.Fail("low must be below high");
  ACT_TRY(const TensorType type, TypeDrawn(c));
  return c.Set(0, Operand{.type = type, .random = std::make_shared<RandomDraw>(RandomDraw{type, low, high})});
}

llvm::Error ImportRandomNormal(NodeContext& c) {
  ACT_TRY(TensorType type, TypeDrawn(c));
  Attributes attrs;
  attrs.Set("distribution", "normal");
  attrs.Set("offset", c.attrs.Float("mean", 0));
  attrs.Set("scale", c.attrs.Float("scale", 1));
  return c.Return(c.builder().AddTyped("Random", {}, std::move(type), attrs, c.name()));
}

// The mask of a dropout in place of the draw: 1 with probability `keep`, not scaled by 1 / keep. In
// evaluation it is `keep`, so that dividing by it, as models do next, gives 1.
llvm::Error SetMask(const NodeContext& c, const Dims& dims, double keep) {
  c.importer.masks[c.node.output(0)] = keep;
  ACT_TRY(ValueId mask, c.builder().Expand(c.builder().Scalar(1), dims, c.name()));
  if (keep == 1) return c.Set(0, mask);
  ACT_TRY(mask, Dropout(c, mask, 1 - keep));
  return c.Return(c.Emit("Mul", {mask, c.builder().Scalar(static_cast<float>(keep))}));
}

// A mask that is always 0 is none: what divides by its mean would divide by 0.
bool IsShare(double keep) { return keep > 0 && keep <= 1; }

// The draw of input i, where nothing has read it yet.
RandomDraw* Undrawn(const NodeContext& c, size_t i) {
  RandomDraw* draw = c.In(i).random.get();
  return draw && draw->value == kNoValue ? draw : nullptr;
}

bool MayMask(const NodeContext& c) { return c.importer.drawn_masks.count(c.node.output(0)) != 0; }

// floor(keep + uniform in [0, 1)): how stochastic depth is written where it is written by hand.
llvm::Error ImportFloor(NodeContext& c) {
  const RandomDraw* draw = Undrawn(c, 0);
  const double keep = c.In(0).random_shift;
  if (draw && draw->low == 0 && draw->high == 1 && IsShare(keep) && MayMask(c))
    return SetMask(c, draw->type.dims, keep);
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(c.Emit("Floor", {x}));
}

// 1 with the probability that input 0 has for the element, else 0.
llvm::Error ImportBernoulli(NodeContext& c) {
  const auto type = c.attrs.Has("dtype") ? FromOnnxType(c.attrs.Int("dtype")) : c.Type(0).dtype;
  if (!type) return c.Fail("draws numbers of a type that no tensor here has");
  const auto share = c.Number(0);
  if (share && IsShare(*share) && IsFloat(*type) && MayMask(c)) return SetMask(c, c.DimsOf(0), *share);
  ACT_TRY(const ValueId share_of_each, c.Value(0));
  Attributes uniform;
  uniform.Set("distribution", "uniform");
  uniform.Set("offset", 0.0);
  uniform.Set("scale", 1.0);
  const TensorType drawn{DType::kFloat32, c.DimsOf(0)};
  ACT_TRY(const ValueId draw, c.builder().AddTyped("Random", {}, drawn, uniform, c.name()));
  ACT_TRY(const ValueId chosen, c.Emit("Less", {draw, share_of_each}));
  return c.Return(c.Cast(chosen, IsFloat(*type) ? DType::kFloat32 : *type));
}

}  // namespace

llvm::Expected<bool> MaskOfDraw(const NodeContext& c) {
  if (!MayMask(c)) return false;
  for (size_t i = 0; i < 2; ++i) {
    const RandomDraw* draw = Undrawn(c, i);
    const auto threshold = c.Number(1 - i);
    if (!draw || !threshold || Broadcast(c.DimsOf(0), c.DimsOf(1)) != c.DimsOf(i)) continue;
    const double below = (*threshold - c.In(i).random_shift - draw->low) / (draw->high - draw->low);
    // draw < threshold, or threshold > draw. That both are equal has no share that counts.
    const bool asks_below = c.node.op_type().starts_with("Less") == (i == 0);
    const double keep = asks_below ? below : 1 - below;
    if (!IsShare(keep)) continue;
    ACT_CHECK_OK(SetMask(c, draw->type.dims, keep));
    return true;
  }
  return false;
}

llvm::Expected<bool> ShiftDraw(const NodeContext& c) {
  if (c.node.op_type() != "Add") return false;
  for (size_t i = 0; i < 2; ++i) {
    const auto by = c.Number(1 - i);
    if (!Undrawn(c, i) || !by || Broadcast(c.DimsOf(0), c.DimsOf(1)) != c.DimsOf(i)) continue;
    Operand shifted = c.In(i);
    shifted.random_shift += *by;
    ACT_CHECK_OK(c.Set(0, std::move(shifted)));
    return true;
  }
  return false;
}

const std::vector<ImportEntry>& RandomImports() {
  static const std::vector<ImportEntry> entries = {
      {"Dropout", 1, 3, ImportDropout},
      {"RandomUniform", 0, 0, ImportRandomUniform},
      {"RandomUniformLike", 1, 1, ImportRandomUniform},
      {"RandomNormal", 0, 0, ImportRandomNormal},
      {"RandomNormalLike", 1, 1, ImportRandomNormal},
      {"Bernoulli", 1, 1, ImportBernoulli},
      {"Floor", 1, 1, ImportFloor},
  };
  return entries;
}

}  // namespace act::onnx_import
