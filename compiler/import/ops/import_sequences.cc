// Operators along one axis: running sums, the largest elements, reversed parts, triangles.
#include <numeric>

#include "compiler/import/fold/lookup.h"
#include "compiler/import/known/onnx_types.h"
#include "compiler/import/ops/integers.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// Swaps the axis with the last one; its own inverse.
llvm::Expected<ValueId> SwapWithLast(const NodeContext& c, ValueId x, size_t axis) {
  std::vector<int64_t> perm(c.TypeOf(x).dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  if (axis + 1 == perm.size()) return x;
  std::swap(perm[axis], perm.back());
  return c.Transpose(x, perm);
}

// The positions of the k largest (smallest) elements along an axis, in order. They replace the
// axis. Our TopK is over the last axis.
llvm::Expected<ValueId> TopK(const NodeContext& c, ValueId x, size_t axis, const Dim& k, bool largest,
                             bool last = false) {
  ACT_TRY(const ValueId rows, SwapWithLast(c, x, axis));
  Attributes attrs;
  attrs.Set("largest", int64_t{largest});
  attrs.Set("last", int64_t{last});
  TensorType type{DType::kInt64, c.TypeOf(rows).dims};
  type.dims.back() = k;
  ACT_TRY(const ValueId index, c.builder().AddTyped("TopK", {rows}, type, attrs, c.name()));
  return SwapWithLast(c, index, axis);
}

llvm::Error ImportTopK(NodeContext& c) {
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", -1), c.DimsOf(0).size()));
  Dims k;  // one number
  if (c.Has(1) && c.In(1).known) {
    ACT_TRY(k, c.DimsFrom(1));
  } else {
    ACT_TRY(const auto given, c.Integer(1));  // an error where the input is data
    if (given || c.attrs.Has("k")) k = {given.value_or(c.attrs.Int("k"))};  // the attribute until opset 9
  }
  if (k.size() != 1) return c.Fail("k must be one number");
  ACT_TRY(const ValueId x, c.Value(0));
  ACT_TRY(const ValueId index, TopK(c, x, axis, k[0], c.attrs.Int("largest", 1) != 0));
  ACT_CHECK_OK(c.Set(1, index));
  if (!c.WantsOutput(0)) return llvm::Error::success();
  const TensorType type{c.TypeOf(x).dtype, c.TypeOf(index).dims};
  return c.Return(c.builder().AddTyped("Gather", {x, index}, type, Along(axis), c.name()));
}

llvm::Error ImportArg(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), from.size()));
  ACT_TRY(const ValueId x, c.Value(0));
  ACT_TRY(const ValueId index,
          TopK(c, x, axis, 1, c.node.op_type() == "ArgMax", c.attrs.Int("select_last_index") != 0));
  Dims dims = c.TypeOf(index).dims;
  if (c.attrs.Int("keepdims", 1) == 0) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return c.Return(c.Reshape(index, dims));
}

// 1 at the first of the largest elements along an axis (before opset 13 along all from `axis` on),
// else 0.
llvm::Error ImportHardmax(NodeContext& c) {
  const Dims dims = c.DimsOf(0);
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", c.opset() < 13 ? 1 : -1), dims.size()));
  ACT_TRY(ValueId x, c.Value(0));
  size_t along = axis;
  if (c.opset() < 13) {
    Dims flat(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis));
    flat.push_back(
        TensorType{DType::kFloat32, Dims(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end())}
            .Elements());
    along = flat.size() - 1;
    ACT_TRY(x, c.Reshape(x, flat));
  }
  const Dims shape = c.TypeOf(x).dims;
  Known positions{{DType::kInt64, Dims(shape.size(), Dim(1))}, {}};
  if (!shape[along].IsFixed() || shape[along].fixed > kMaxKnownElements)
    return c.Fail("an axis of " + ToString(shape[along]) + " is not supported");
  positions.type.dims[along] = shape[along];
  for (int64_t i = 0; i < shape[along].fixed; ++i) positions.elements.push_back({Dim(i)});
  ACT_TRY(const ValueId index, TopK(c, x, along, 1, true));
  ACT_TRY(const ValueId at, c.importer.Materialize(KnownOperand(std::move(positions))));
  ACT_TRY(const ValueId hot, c.Emit("Equal", {index, at}));
  ACT_TRY(const ValueId y, c.Cast(hot, DType::kFloat32));
  return c.Return(c.Reshape(y, dims));
}

llvm::Error ImportCumSum(NodeContext& c) {
  if (c.Type(0).dtype == DType::kBool)
    return c.Fail("adds up bool, which ONNX does not define",
                  "cast the operand to int64 first (in PyTorch: mask.long().cumsum(dim))");
  ACT_TRY(const auto given, c.Integer(1));
  if (!given) return c.Fail("the axis is left out");
  ACT_TRY(const size_t axis, c.Axis(*given, c.DimsOf(0).size()));
  Attributes attrs = Along(axis);
  attrs.Set("exclusive", c.attrs.Int("exclusive"));
  attrs.Set("reverse", c.attrs.Int("reverse"));
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(c.Emit("CumSum", {x}, attrs));
}

// Positions along the rows (axis 0) or columns of a matrix, `from` added.
llvm::Expected<ValueId> Positions(const NodeContext& c, const Dim& extent, size_t axis, int64_t from) {
  Known known{{DType::kInt64, {1, 1}}, {}};
  known.type.dims[axis] = extent;
  if (extent.IsFixed() && !FixedDims(known.type.dims))
    return c.Fail("an axis of " + ToString(extent) + " is not supported");
  ForEachStored(known.type.dims, *StoredDims(known.type.dims), [&](const Position& at, size_t) {
    known.elements.push_back({at[axis].integer + Dim(from), 0, at[axis].per_index});
  });
  return c.importer.MaterializeToBroadcast(KnownOperand(std::move(known)));
}

// rows x columns flags: column - row >= k (upper) or <= k. A constant where the matrix is fixed and not too large.
llvm::Expected<ValueId> Triangle(const NodeContext& c, const Dim& rows, const Dim& columns, int64_t k,
                                 bool upper) {
  if (FixedDims({rows, columns})) {
    Known flags{{DType::kBool, {rows, columns}}, {}};
    for (int64_t r = 0; r < rows.fixed; ++r)
      for (int64_t col = 0; col < columns.fixed; ++col)
        flags.elements.push_back({Dim(upper ? col - r >= k : col - r <= k)});
    return c.importer.Materialize(KnownOperand(std::move(flags)));
  }
  ACT_TRY(const ValueId row, Positions(c, rows, 0, SaturatingAdd(k, upper ? -1 : 1)));
  ACT_TRY(const ValueId column, Positions(c, columns, 1, 0));
  return c.Emit(upper ? "Greater" : "Less", {column, row});
}

llvm::Error ImportTrilu(NodeContext& c) {
  const Dims& dims = c.DimsOf(0);
  if (dims.size() < 2) return c.Fail("needs a matrix, its operand is " + ToString(c.Type(0)));
  ACT_TRY(const auto k, c.Integer(1));
  const Dim &rows = dims[dims.size() - 2], &columns = dims.back();
  if (c.Type(0).Elements() == Dim(0)) return c.Return(c.Value(0));
  ACT_TRY(const ValueId inside, Triangle(c, rows, columns, k.value_or(0), c.attrs.Int("upper", 1) != 0));
  ACT_TRY(const ValueId x, c.BroadcastValue(0, {rows, columns}));
  if (c.Type(0).dtype == DType::kFloat32)
    return c.Return(c.Emit("Where", {inside, x, c.builder().Scalar(0)}));
  ACT_TRY(const ValueId outside, IntegerConstant(c, c.Type(0).dtype, 0));
  return c.Return(Integer(c, "select", {inside, x, outside}));
}

// Reverses the first elements along the time axis, as many in each sample as its length says. The rest stays.
llvm::Error ImportReverseSequence(NodeContext& c) {
  const Dims& dims = c.DimsOf(0);
  ACT_TRY(const size_t time, c.Axis(c.attrs.Int("time_axis", 0), dims.size()));
  ACT_TRY(const size_t batch, c.Axis(c.attrs.Int("batch_axis", 1), dims.size()));
  if (time == batch || c.DimsOf(1) != Dims{dims[batch]} || c.Type(1).dtype != DType::kInt64)
    return c.Fail("its lengths are " + ToString(c.Type(1)) + ", must be one i64 for each sample");
  if (!dims[time].IsFixed() || dims[time].fixed > kMaxKnownElements)
    return c.Fail("reverses an axis of " + ToString(dims[time]));
  ACT_TRY(const ValueId x, c.Value(0));
  const std::optional<double> length = c.Number(1);  // of all samples
  if (length == static_cast<double>(dims[time].fixed)) {
    Ints starts(dims.size(), 0), steps(dims.size(), 1);
    starts[time] = dims[time].fixed - 1;
    steps[time] = -1;
    return c.Return(c.builder().Slice(x, starts, dims, steps, c.name()));
  }
  Known places{{DType::kInt64, Dims(dims.size(), Dim(1))}, {}};
  places.type.dims[time] = dims[time];
  for (int64_t t = 0; t < dims[time].fixed; ++t) places.elements.push_back({Dim(t)});
  Dims of_samples(dims.size(), Dim(1));
  of_samples[batch] = dims[batch];
  ACT_TRY(const ValueId given, c.Value(1));
  ACT_TRY(const ValueId lengths, c.Reshape(given, of_samples));
  ACT_TRY(const ValueId place, c.importer.Materialize(KnownOperand(std::move(places))));
  ACT_TRY(const ValueId one, IntegerConstant(c, DType::kInt64, 1));
  ACT_TRY(const ValueId left, Integer(c, "sub", {lengths, place}));
  ACT_TRY(const ValueId mirrored, Integer(c, "sub", {left, one}));
  ACT_TRY(const ValueId inside, c.Emit("Less", {place, lengths}));
  ACT_TRY(const ValueId index, Integer(c, "select", {inside, mirrored, place}));
  return c.Return(c.builder().AddTyped("Gather", {x, index}, c.TypeOf(x), Along(time), c.name()));
}

// EyeLike reads only the type of its operand.
llvm::Error ImportEyeLike(NodeContext& c) {
  const Dims& dims = c.DimsOf(0);
  if (dims.size() != 2 || (dims[0].IsFixed() && dims[1].IsFixed() && !FixedDims(dims)))
    return c.Fail("needs a matrix that is not too large, its operand is " + ToString(c.Type(0)));
  auto dtype = std::optional(c.Type(0).dtype);
  if (c.attrs.Has("dtype")) dtype = FromOnnxType(c.attrs.Int("dtype"));
  if (!dtype) return c.Fail("element type " + std::to_string(c.attrs.Int("dtype")) + " is not supported");
  const int64_t k = c.attrs.Int("k");
  if (!FixedDims(dims)) {
    ACT_TRY(const ValueId row, Positions(c, dims[0], 0, k));
    ACT_TRY(const ValueId column, Positions(c, dims[1], 1, 0));
    ACT_TRY(const ValueId flags, c.Emit("Equal", {column, row}));
    if (*dtype == DType::kBool) return c.Set(0, flags);
    return c.Return(c.Cast(flags, IsFloat(*dtype) ? DType::kFloat32 : *dtype));
  }
  Known eye{{*dtype, dims}, {}};
  for (int64_t r = 0; r < dims[0].fixed; ++r)
    for (int64_t col = 0; col < dims[1].fixed; ++col) {
      const bool one = col - r == k;
      eye.elements.push_back(IsFloat(*dtype) ? RealElement(*dtype, one) : Element{Dim(one)});
    }
  return c.Set(0, KnownOperand(std::move(eye)));
}

}  // namespace

const std::vector<ImportEntry>& SequenceImports() {
  static const std::vector<ImportEntry> entries = {
      {"TopK", 1, 2, ImportTopK},
      {"ArgMax", 1, 1, ImportArg},
      {"ArgMin", 1, 1, ImportArg},
      {"Hardmax", 1, 1, ImportHardmax},
      {"CumSum", 2, 2, ImportCumSum},
      {"Trilu", 1, 2, ImportTrilu},
      {"ReverseSequence", 2, 2, ImportReverseSequence},
      {"EyeLike", 1, 1, ImportEyeLike},
      {"Trilu", 1, 2, ImportTrilu, kMicrosoft},  // ONNX Runtime's gradient of Trilu
  };
  return entries;
}

}  // namespace act::onnx_import
