// Operators that move elements: views, transposes, joins, repetitions.
#include <algorithm>

#include "compiler/import/core/importer.h"
#include "compiler/import/fold/fold_shapes.h"
#include "compiler/import/ops/integers.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

llvm::Error ReturnView(NodeContext& c, Dims dims) {
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(c.Reshape(x, std::move(dims)));
}

llvm::Error ImportReshape(NodeContext& c) {
  ACT_TRY(const Dims shape, c.DimsFrom(1));
  const auto dims = ResolveReshape(c.DimsOf(0), shape, c.attrs.Int("allowzero") != 0);
  if (!dims) return c.Fail("cannot reshape " + ToString(c.Type(0)) + " to " + ToString(shape));
  return ReturnView(c, *dims);
}

llvm::Error ImportFlatten(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  int64_t axis = c.attrs.Int("axis", 1);
  if (axis < 0) axis += c.Type(0).rank();
  if (axis < 0 || axis > c.Type(0).rank()) return c.Fail("axis is outside " + ToString(c.Type(0)));
  Dims dims{1, 1};
  for (size_t i = 0; i < from.size(); ++i) {
    Dim& side = dims[static_cast<int64_t>(i) < axis ? 0 : 1];
    side = side * from[i];
  }
  return ReturnView(c, dims);
}

llvm::Expected<std::vector<bool>> AxisSet(const NodeContext& c, const Ints& axes, size_t rank) {
  std::vector<bool> set(rank, false);
  for (int64_t a : axes) {
    ACT_TRY(const size_t axis, c.Axis(a, rank));
    if (set[axis]) return c.Fail("names axis " + std::to_string(axis) + " twice");
    set[axis] = true;
  }
  return set;
}

llvm::Error ImportUnsqueeze(NodeContext& c) {
  ACT_TRY(const auto axes, c.Integers(1, "axes"));
  if (!axes) return c.Fail("names no axes");
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const std::vector<bool> inserted, AxisSet(c, *axes, from.size() + axes->size()));
  Dims dims;
  size_t next = 0;
  for (bool is_new : inserted) dims.push_back(is_new ? Dim(1) : from[next++]);
  return ReturnView(c, dims);
}

llvm::Error ImportSqueeze(NodeContext& c) {
  ACT_TRY(const auto axes, c.Integers(1, "axes"));
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const std::vector<bool> named, AxisSet(c, axes.value_or(Ints{}), from.size()));
  Dims dims;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool drop = axes ? named[i] : from[i] == Dim(1);
    if (drop && from[i] != Dim(1))
      return c.Fail("squeezes axis " + std::to_string(i) + " of " + ToString(c.Type(0)));
    if (!drop) dims.push_back(from[i]);
  }
  return ReturnView(c, dims);
}

llvm::Error ImportTranspose(NodeContext& c) {
  ACT_TRY(const ValueId x, c.Value(0));
  const auto perm = ResolvePerm(c.attrs, c.DimsOf(0).size());
  if (!perm) return c.Fail("perm is not a permutation of the axes of " + ToString(c.Type(0)));
  return c.Return(c.Transpose(x, *perm));
}

llvm::Error ImportConcat(NodeContext& c) {
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), c.DimsOf(0).size()));
  std::vector<ValueId> parts;
  for (size_t i = 0; i < c.inputs(); ++i) {
    if (!c.Has(i)) return c.Fail("input " + std::to_string(i) + " is left out");
    ACT_TRY(const ValueId part, c.Value(i));
    parts.push_back(part);
  }
  if (parts.size() == 1) return c.Set(0, parts[0]);
  return c.Return(c.Emit("Concat", std::move(parts), Along(axis)));
}

// ONNX Runtime writes it in place of every Concat of a training graph. Its second result is the
// extent of each part. Shapes are joined this way too, so it folds as Concat does.
llvm::Error ImportConcatTraining(NodeContext& c) {
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), c.DimsOf(0).size()));
  Dims extents;
  FoldArgs args{{}, c.attrs};
  bool known = true;
  for (size_t i = 0; i < c.inputs(); ++i) {
    if (!c.Has(i)) return c.Fail("input " + std::to_string(i) + " is left out");
    if (axis >= c.DimsOf(i).size()) return c.Fail("its parts have different ranks");
    extents.push_back(c.DimsOf(i)[axis]);
    known = known && c.In(i).known;
    args.in.push_back(known ? &*c.In(i).known : nullptr);
  }
  if (c.WantsOutput(1)) ACT_CHECK_OK(c.Set(1, KnownOperand(IntegerVector(extents))));
  if (const Folded folded = known ? FindFold("Concat")->fold(args) : std::nullopt)
    return c.Set(0, KnownOperand(folded->front()));
  return ImportConcat(c);
}

llvm::Error ImportExpand(NodeContext& c) {
  ACT_TRY(Dims dims, c.DimsFrom(1));
  const Dims& from = c.DimsOf(0);
  while (dims.size() < from.size()) dims.insert(dims.begin(), Dim(1));
  for (size_t i = 0; i < from.size(); ++i) {
    Dim& dim = dims[i + dims.size() - from.size()];
    if (dim == Dim(1)) dim = from[i];
  }
  ACT_TRY(ValueId x, c.Value(0));
  // Expanding only spatial axes, as after a global pooling, is done channels-last, where the
  // transposes cancel. Integers are no images: an index is best expanded as it is.
  const bool spatial =
      IsFloat(c.Type(0).dtype) && from.size() == dims.size() && dims.size() > 2 && dims != from &&
      std::equal(dims.begin(), dims.begin() + 2, from.begin()) &&
      std::all_of(from.begin() + 2, from.end(), [](const Dim& dim) { return dim == Dim(1); });
  if (!spatial) return c.Return(c.builder().Expand(x, dims, c.name()));
  ACT_TRY(x, c.ToChannelsLast(x));
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  ACT_TRY(const ValueId y, c.builder().Expand(x, dims, c.name()));
  return c.Return(c.ToChannelsFirst(y));
}

// Each axis that repeats gets a new axis before it, which is expanded and joined with it.
llvm::Error ImportTile(NodeContext& c) {
  ACT_TRY(const Dims repeats, c.Polynomials(1));
  const Dims& from = c.DimsOf(0);
  if (repeats.size() != from.size()) return c.Fail("repeats must be one for each axis");
  ACT_TRY(const ValueId x, c.Value(0));
  Dims apart, spread, joined;
  for (size_t i = 0; i < from.size(); ++i) {
    const Dim& count = repeats[i];
    if (SignsOf(count).low < 0) return c.Fail("repeats an axis " + ToString(count) + " times");
    if (count != Dim(1)) {
      apart.push_back(1);
      spread.push_back(count);
    }
    apart.push_back(from[i]);
    spread.push_back(from[i]);
    joined.push_back(from[i] * count);
  }
  ACT_TRY(const ValueId parts, c.Reshape(x, apart));
  ACT_TRY(const ValueId copies, c.builder().Expand(parts, spread, c.name()));
  return c.Return(c.Reshape(copies, joined));
}

// [N, C, H, W] <-> [N, C / b^2, H b, W b]. In the deep form the offset in a block comes before the
// channel (DCR) or after it (CRD).
llvm::Error ImportDepthSpace(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  const int64_t b = c.attrs.Int("blocksize");
  const bool to_space = c.node.op_type() == "DepthToSpace";
  if (from.size() != 4 || b < 1 || b > kMaxKnownElements)
    return c.Fail("needs [N,C,H,W] and a block size, has " + ToString(c.Type(0)) + " and " +
                  std::to_string(b));
  const auto channels = to_space ? DivideExact(from[1], Dim(b * b)) : from[1];
  const auto height = to_space ? from[2] : DivideExact(from[2], Dim(b));
  const auto width = to_space ? from[3] : DivideExact(from[3], Dim(b));
  if (!channels || !height || !width)
    return c.Fail("blocks of " + std::to_string(b) + " do not fit " + ToString(c.Type(0)));
  ACT_TRY(const ValueId x, c.Value(0));
  if (!to_space) {
    ACT_TRY(ValueId y, c.Reshape(x, {from[0], *channels, *height, b, *width, b}));
    ACT_TRY(y, c.Transpose(y, {0, 3, 5, 1, 2, 4}));
    return c.Return(c.Reshape(y, {from[0], *channels * Dim(b * b), *height, *width}));
  }
  const bool crd = c.attrs.String("mode", "DCR") == "CRD";
  ACT_TRY(ValueId y, crd ? c.Reshape(x, {from[0], *channels, b, b, *height, *width})
                         : c.Reshape(x, {from[0], b, b, *channels, *height, *width}));
  ACT_TRY(y, crd ? c.Transpose(y, {0, 1, 4, 2, 5, 3}) : c.Transpose(y, {0, 3, 4, 1, 5, 2}));
  return c.Return(c.Reshape(y, {from[0], *channels, *height * Dim(b), *width * Dim(b)}));
}

}  // namespace

const std::vector<ImportEntry>& StructureImports() {
  static const std::vector<ImportEntry> entries = {
      {"Reshape", 2, 2, ImportReshape},
      {"Flatten", 1, 1, ImportFlatten},
      {"Unsqueeze", 1, 2, ImportUnsqueeze},
      {"Squeeze", 1, 2, ImportSqueeze},
      {"Transpose", 1, 1, ImportTranspose},
      {"Concat", 1, -1, ImportConcat},
      {"ConcatTraining", 1, -1, ImportConcatTraining, kMicrosoft},
      {"Expand", 2, 2, ImportExpand},
      {"Tile", 2, 2, ImportTile},
      {"DepthToSpace", 1, 1, ImportDepthSpace},
      {"SpaceToDepth", 1, 1, ImportDepthSpace},
  };
  return entries;
}

}  // namespace act::onnx_import
