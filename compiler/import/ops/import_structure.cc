// Operators that move elements: views, transposes, slices, joins.
#include <algorithm>

#include "compiler/import/core/importer.h"
#include "compiler/import/fold/lookup.h"
#include "compiler/import/ops/slices.h"

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
  Ints perm = c.attrs.Ints("perm");
  if (perm.empty())
    for (int64_t i = c.Type(0).rank(); i-- > 0;) perm.push_back(i);
  return c.Return(c.Transpose(x, perm));
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
  Attributes attrs;
  attrs.Set("axis", static_cast<int64_t>(axis));
  return c.Return(c.Emit("Concat", std::move(parts), attrs));
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
  if (const Folded folded = known ? FindFold("Concat")(args) : std::nullopt)
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
  // transposes cancel.
  const bool spatial =
      from.size() == dims.size() && dims.size() > 2 && dims != from &&
      std::equal(dims.begin(), dims.begin() + 2, from.begin()) &&
      std::all_of(from.begin() + 2, from.end(), [](const Dim& dim) { return dim == Dim(1); });
  if (!spatial) return c.Return(c.builder().Expand(x, dims, c.name()));
  ACT_TRY(x, c.ToChannelsLast(x));
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  ACT_TRY(const ValueId y, c.builder().Expand(x, dims, c.name()));
  return c.Return(c.ToChannelsFirst(y));
}

// Copies of integers along an axis. A fused loop would compute them in floats, so they are joined, or,
// where their number varies with N, added to zeros.
llvm::Expected<ValueId> RepeatIntegers(const NodeContext& c, ValueId x, size_t axis, const Dim& count) {
  Attributes attrs;
  if (count.IsFixed()) {
    if (count.fixed == 0 || count.fixed > kMaxKnownElements)
      return c.Fail("repeats an axis of integers that often");
    attrs.Set("axis", static_cast<int64_t>(axis));
    return c.Emit("Concat", std::vector<ValueId>(static_cast<size_t>(count.fixed), x), attrs);
  }
  const TensorType type = c.TypeOf(x);
  Dims apart = type.dims, joined = type.dims;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
  joined[axis] = joined[axis] * count;
  Known zeros{{type.dtype, Dims(apart.size(), Dim(1))}, {Element{}}};
  zeros.type.dims[axis] = count;
  ACT_TRY(const ValueId none, c.importer.Materialize(KnownOperand(std::move(zeros))));
  ACT_TRY(const ValueId parts, c.Reshape(x, apart));
  attrs.Set("op", std::string("add"));
  ACT_TRY(const ValueId copies, c.Emit("Integer", {parts, none}, attrs));
  return c.Reshape(copies, joined);
}

// Each axis that repeats gets a new axis before it, which is expanded and joined with it.
llvm::Error ImportTile(NodeContext& c) {
  ACT_TRY(const Dims repeats, c.DimsFrom(1));
  const Dims& from = c.DimsOf(0);
  if (repeats.size() != from.size()) return c.Fail("repeats must be one for each axis");
  // Flags are exact in floats.
  const bool flags = c.Type(0).dtype == DType::kBool && !AsIntegers(*c.In(1).known);
  const bool in_loop = c.Type(0).dtype == DType::kFloat32 || flags;
  ACT_TRY(ValueId x, c.Value(0));
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
    if (!in_loop && count != Dim(1)) {
      ACT_TRY(x, RepeatIntegers(c, x, i, count));
    }
  }
  if (!in_loop) return c.Set(0, x);
  ACT_TRY(const ValueId parts, c.Reshape(x, apart));
  ACT_TRY(const ValueId copies, c.builder().Expand(parts, spread, c.name()));
  return c.Return(c.Reshape(copies, joined));
}

// The elements at start + i step of an axis. The start varies with N, so they are looked up.
llvm::Expected<ValueId> TakeAlong(const NodeContext& c, ValueId x, size_t axis, const BatchSlice& slice) {
  TensorType type = c.TypeOf(x);
  type.dims[axis] = slice.extent;
  Known places{{DType::kInt64, Dims(type.dims.size(), Dim(1))}, {}};
  places.type.dims[axis] = slice.extent;
  if (slice.extent.IsFixed() && !FixedDims(places.type.dims)) return c.Fail("takes too many elements");
  ForEachStored(places.type.dims, *StoredDims(places.type.dims), [&](const Position& at, size_t) {
    places.elements.push_back(
        {slice.start + at[axis].integer * Dim(slice.step), 0, SaturatingMul(at[axis].per_index, slice.step)});
  });
  ACT_TRY(const ValueId index, c.importer.Materialize(KnownOperand(std::move(places))));
  Attributes attrs;
  attrs.Set("axis", static_cast<int64_t>(axis));
  return c.builder().AddTyped("Gather", {x, index}, type, attrs, c.name());
}

llvm::Error ImportSlice(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const std::vector<Cut> cuts, ReadSlice(c, from.size(), 1));
  ACT_TRY(ValueId x, c.Value(0));
  std::vector<SliceRange> ranges = Whole(from);
  for (const auto& [axis, start, end, step] : cuts) {
    const auto range = ResolveSlice(from[axis], start, end, step);
    if (range) {
      ranges[axis] = *range;
      continue;
    }
    const auto of_batch = ResolveBatchSlice(from[axis], start, end, step);
    if (!of_batch)
      return c.Fail("axis " + std::to_string(axis) + " of " + ToString(c.Type(0)) +
                    " is cut in a way that depends on the batch size");
    ACT_TRY(x, TakeAlong(c, x, axis, *of_batch));
    ranges[axis].extent = of_batch->extent;
  }
  return c.Return(SliceOf(c, x, ranges));
}

llvm::Error ImportSplit(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), from.size()));
  ACT_TRY(const auto given, c.Integers(1, "split"));
  const auto sizes = ResolveSplit(from[axis], given, c.outputs());
  if (!sizes) return c.Fail("cannot split axis " + std::to_string(axis) + " of " + ToString(c.Type(0)));
  ACT_TRY(const ValueId x, c.Value(0));
  int64_t start = 0;
  for (size_t i = 0; i < sizes->size(); ++i) {
    std::vector<SliceRange> ranges = Whole(from);
    ranges[axis] = {start, (*sizes)[i], 1};
    ACT_TRY(const ValueId part, SliceOf(c, x, ranges));
    ACT_CHECK_OK(c.Set(i, part));
    start += (*sizes)[i];
  }
  return llvm::Error::success();
}

// Sequences exist only between these two: torch.split and torch.chunk, as the dynamo exporter
// writes them. The sizes are a list, or one number for all parts, the last of which may be smaller.
llvm::Error ImportSplitToSequence(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), from.size()));
  ACT_TRY(const auto given, c.Integers(1, "split"));
  if (!given || given->empty() || !from[axis].IsFixed() || c.attrs.Int("keepdims", 1) == 0)
    return c.Fail("splits in a way that is not supported", "sizes and extent must be known when compiling");
  Ints sizes = *given;
  if (c.DimsOf(1).empty()) {
    if (sizes[0] < 1 || from[axis].fixed / sizes[0] > kMaxKnownElements)
      return c.Fail("has parts that are too small");
    const int64_t size = sizes[0];
    sizes.assign(static_cast<size_t>(from[axis].fixed / size), size);
    if (from[axis].fixed % size != 0) sizes.push_back(from[axis].fixed % size);
  }
  if (!ResolveSplit(from[axis], sizes, sizes.size())) return c.Fail("cannot split " + ToString(c.Type(0)));
  ACT_TRY(const ValueId x, c.Value(0));
  Operand sequence;
  sequence.type = c.Type(0);
  int64_t start = 0;
  for (int64_t size : sizes) {
    std::vector<SliceRange> ranges = Whole(from);
    ranges[axis] = {start, size, 1};
    ACT_TRY(const ValueId part, SliceOf(c, x, ranges));
    sequence.sequence.push_back(part);
    start += size;
  }
  return c.Set(0, std::move(sequence));
}

llvm::Error ImportSequenceAt(NodeContext& c) {
  const std::vector<ValueId>& sequence = c.In(0).sequence;
  const auto position = c.In(1).known ? AsIntegers(*c.In(1).known) : std::nullopt;
  if (sequence.empty() || !position || position->size() != 1)
    return c.Fail("sequence and position must be known when compiling");
  ACT_TRY(const size_t at, c.Axis((*position)[0], sequence.size()));
  return c.Set(0, sequence[at]);
}

llvm::Error ImportPad(NodeContext& c) {
  const size_t rank = c.DimsOf(0).size();
  ACT_TRY(const auto given, c.Integers(1, "pads"));
  ACT_TRY(const auto axes_given, c.Integers(3, "axes"));
  if (!given) return c.Fail("gives no pads");
  Ints axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int64_t>(i);
  if (axes_given) axes = *axes_given;
  if (given->size() != 2 * axes.size()) return c.Fail("pads must be two for each axis");
  Ints pads(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    ACT_TRY(const size_t axis, c.Axis(axes[i], rank));
    pads[axis] = (*given)[i];
    pads[axis + rank] = (*given)[i + axes.size()];
  }
  ACT_TRY(const ValueId x, c.Value(0));
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return c.Set(0, x);
  const std::string mode = c.attrs.String("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge")
    return c.Fail("mode " + mode + " is not supported");
  if (c.Has(2) && !c.Number(2)) return c.Fail("the padding value must be a constant");
  constexpr double kExact = 1 << 24;  // the value is kept as a float32
  if (!IsFloat(c.Type(0).dtype) && c.Has(2) && std::abs(*c.Number(2)) > kExact)
    return c.Fail("pads integers with a number above 2^24");
  Attributes attrs;
  attrs.Set("pads", pads);
  attrs.Set("mode", mode);
  attrs.Set("value", c.Has(2) ? *c.Number(2) : c.attrs.Float("value", 0));
  return c.Return(c.Emit("Pad", {x}, attrs));
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
      {"Slice", 1, 5, ImportSlice},
      {"Split", 1, 2, ImportSplit},
      {"SplitTraining", 2, 2, ImportSplit, kMicrosoft},
      {"Pad", 1, 4, ImportPad},
      {"DepthToSpace", 1, 1, ImportDepthSpace},
      {"SpaceToDepth", 1, 1, ImportDepthSpace},
      {"SplitToSequence", 1, 2, ImportSplitToSequence},
      {"SequenceAt", 2, 2, ImportSequenceAt},
  };
  return entries;
}

}  // namespace act::onnx_import
