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
llvm::Error SetMask(const NodeContext& c, RandomDraw& draw, double keep) {
  if (!(keep > 0 && keep <= 1)) return c.Fail("a mask that is always 0 or ill-defined");
  draw.masked = true;
  c.importer.masks[c.node.output(0)] = keep;
  ACT_TRY(ValueId mask, c.builder().Expand(c.builder().Scalar(1), draw.type.dims, c.name()));
  if (keep == 1) return c.Set(0, mask);
  ACT_TRY(mask, Dropout(c, mask, 1 - keep));
  return c.Return(c.Emit("Mul", {mask, c.builder().Scalar(static_cast<float>(keep))}));
}

// The draw of input i, where nothing has read it yet: then it may become a mask.
RandomDraw* Undrawn(const NodeContext& c, size_t i) {
  RandomDraw* draw = c.In(i).random.get();
  return draw && draw->value == kNoValue && !draw->masked ? draw : nullptr;
}

// uniform < p
llvm::Error ImportLess(NodeContext& c) {
  RandomDraw* draw = Undrawn(c, 0);
  const auto threshold = c.Number(1);
  if (!draw || !threshold || Broadcast(c.DimsOf(0), c.DimsOf(1)) != c.DimsOf(0))
    return c.Return(c.EmitBinary("Less"));
  return SetMask(c, *draw, (*threshold - c.In(0).random_shift - draw->low) / (draw->high - draw->low));
}

// floor(keep + uniform in [0, 1)): how stochastic depth is written where it is written by hand.
llvm::Error ImportFloor(NodeContext& c) {
  RandomDraw* draw = Undrawn(c, 0);
  const double keep = c.In(0).random_shift;
  if (draw && draw->low == 0 && draw->high == 1 && keep > 0 && keep <= 1) return SetMask(c, *draw, keep);
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(c.Emit("Floor", {x}));
}

}  // namespace

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
      {"Less", 2, 2, ImportLess},
      {"Floor", 1, 1, ImportFloor},
  };
  return entries;
}

}  // namespace act::onnx_import
