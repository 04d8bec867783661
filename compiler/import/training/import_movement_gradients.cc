// Gradients of lookups and slices, and the axes over which the gradient of a broadcast is summed.
#include "compiler/import/ops/gather_index.h"
#include "compiler/import/ops/slices.h"
#include "compiler/import/training/gradient_rules.h"

namespace act::onnx_import {
namespace {

// dY scattered into zeros of this shape. Where indices meet, their gradients add up.
llvm::Expected<ValueId> ScatterSum(NodeContext& c, ValueId dy, ValueId index, const Dims& dims, size_t axis) {
  Attributes attrs;
  attrs.Set("axis", static_cast<int64_t>(axis));
  attrs.Set("reduction", std::string("add"));
  return c.builder().AddTyped("Scatter", {dy, index}, {DType::kFloat32, dims}, attrs, c.name());
}

// shape of W, indices, dY -> dW
llvm::Error ImportGatherGrad(NodeContext& c) {
  ACT_TRY(const Dims dims, c.DimsFrom(0));
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), dims.size()));
  ACT_TRY(ValueId index, c.Value(1));
  ACT_TRY(ValueId dy, c.Value(2));
  Dims index_dims(dims.size(), Dim(1)), part = dims;
  index_dims[axis] = part[axis] = c.Type(1).Elements();
  ACT_TRY(index, c.Reshape(index, index_dims));
  ACT_TRY(dy, c.Reshape(dy, part));
  return c.Return(ScatterSum(c, dy, index, dims, axis));
}

// dY, shape of X, indices -> dX
llvm::Error ImportGatherElementsGrad(NodeContext& c) {
  ACT_TRY(const Dims dims, c.DimsFrom(1));
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), dims.size()));
  if (c.DimsOf(2) != c.DimsOf(0) || dims.size() != c.DimsOf(0).size())
    return c.Fail("indices " + ToString(c.Type(2)) + " do not fit the gradient " + ToString(c.Type(0)) +
                  " of lookups in " + ToString(dims));
  ACT_TRY(const ValueId dy, c.Value(0));
  ACT_TRY(const ValueId index, UnexpandedIndex(c, 2, axis));
  return c.Return(ScatterSum(c, dy, index, dims, axis));
}

// shape of X, indices, dY -> dX
llvm::Error ImportGatherNDGrad(NodeContext& c) {
  ACT_TRY(const Dims dims, c.DimsFrom(0));
  ACT_TRY(const Tuples t, TuplesOf(c, dims, 1, c.attrs.Int("batch_dims")));
  ACT_TRY(const ValueId index, FlatIndexOf(c, 1, t));
  ACT_TRY(const ValueId given, c.Value(2));
  ACT_TRY(const ValueId dy, c.Reshape(given, t.Part()));
  ACT_TRY(const ValueId dx, ScatterSum(c, dy, index, t.Whole(), 1));
  return c.Return(c.Reshape(dx, dims));
}

// dY, shape of X, starts, ends, axes?, steps? -> dX
llvm::Error ImportSliceGrad(NodeContext& c) {
  ACT_TRY(const Dims dims, c.DimsFrom(1));
  ACT_TRY(const std::vector<Cut> cuts, ReadSlice(c, dims.size(), 2));
  std::vector<SliceRange> ranges = Whole(dims);
  for (const auto& [axis, start, end, step] : cuts) {
    const auto range = ResolveSlice(dims[axis], start, end, step);
    if (!range)
      return c.Fail("axis " + std::to_string(axis) + " of " + ToString(dims) +
                    " is cut in a way that depends on the batch size");
    ranges[axis] = *range;
  }
  Dims part;
  std::vector<int64_t> starts, steps;
  for (const SliceRange& range : ranges) {
    part.push_back(range.extent);
    starts.push_back(range.start);
    steps.push_back(range.step);
  }
  if (part != c.DimsOf(0))
    return c.Fail("the gradient is " + ToString(c.Type(0)) + ", the slice is " + ToString(part));
  Attributes attrs;
  attrs.Set("starts", starts);
  attrs.Set("steps", steps);
  ACT_TRY(const ValueId dy, c.Value(0));
  return c.Return(c.builder().AddTyped("SliceGrad", {dy}, {DType::kFloat32, dims}, attrs, c.name()));
}

// shapes of A and B -> for each the axes over which its gradient is summed: those that broadcasting
// made longer. They count from the front of the joint shape.
llvm::Error ImportBroadcastGradientArgs(NodeContext& c) {
  std::vector<Dims> shapes(2), axes(2);
  for (size_t i = 0; i < 2; ++i) {
    ACT_TRY(shapes[i], c.DimsFrom(i));
  }
  const size_t rank = std::max(shapes[0].size(), shapes[1].size());
  for (size_t axis = rank; axis-- > 0;) {
    std::vector<std::optional<Dim>> extents;
    for (const Dims& shape : shapes) {
      const size_t missing = rank - shape.size();
      extents.push_back(axis < missing ? std::nullopt : std::optional(shape[axis - missing]));
    }
    for (size_t i = 0; i < 2; ++i)
      if (extents[i] != extents[1 - i] && (!extents[i] || *extents[i] == Dim(1)))
        axes[i].push_back(static_cast<int64_t>(axis));
  }
  for (size_t i = 0; i < 2; ++i)
    if (c.WantsOutput(i)) ACT_CHECK_OK(c.Set(i, KnownOperand(IntegerVector(axes[i]))));
  return llvm::Error::success();
}

}  // namespace

const std::vector<ImportEntry>& MovementGradients() {
  static const std::vector<ImportEntry> entries = {
      {"GatherGrad", 3, 3, ImportGatherGrad, kMicrosoft},
      {"GatherElementsGrad", 3, 3, ImportGatherElementsGrad, kMicrosoft},
      {"GatherNDGrad", 3, 3, ImportGatherNDGrad, kMicrosoft},
      {"SliceGrad", 4, 6, ImportSliceGrad, kMicrosoft},
      {"BroadcastGradientArgs", 2, 2, ImportBroadcastGradientArgs, kMicrosoft},
  };
  return entries;
}

}  // namespace act::onnx_import
