// Sequences of tensors. They exist only while importing, where their lengths are known: torch.split and
// torch.chunk as the dynamo exporter writes them, and lists that a loop fills.
#include "compiler/import/fold/fold_shapes.h"
#include "compiler/import/known/onnx_types.h"
#include "compiler/import/ops/slices.h"
#include "compiler/import/ops/stack.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;
using Parts = std::vector<Operand>;

// The most tensors that the sequences of one import may have together. A loop that puts T of them in a sequence
// makes T sequences, with T^2 / 2 tensors.
constexpr int64_t kMaxSequenceParts = int64_t{1} << 24;

llvm::Error SetSequence(const NodeContext& c, TensorType type, Parts parts) {
  c.importer.sequence_parts += static_cast<int64_t>(parts.size());
  if (c.importer.sequence_parts > kMaxSequenceParts)
    return c.Fail("sequences have together more than " + std::to_string(kMaxSequenceParts) + " tensors");
  Operand sequence;
  sequence.type = std::move(type);
  sequence.sequence = std::make_shared<const Parts>(std::move(parts));
  return c.Set(0, std::move(sequence));
}

llvm::Expected<const Parts*> SequenceIn(const NodeContext& c, size_t i) {
  if (const Parts* parts = c.In(i).sequence.get()) return parts;
  return c.Fail("input " + std::to_string(i) + " is no sequence whose length is known when compiling");
}

// A position from 0 to `positions` - 1, which input i may count from the end; the last one where it is left
// out.
llvm::Expected<size_t> PositionIn(const NodeContext& c, size_t i, size_t positions) {
  if (positions == 0) return c.Fail("the sequence is empty");
  if (!c.Has(i)) return positions - 1;
  const auto known = c.In(i).known ? AsIntegers(*c.In(i).known) : std::nullopt;
  if (!known || known->size() != 1) return c.Fail("the position must be known when compiling");
  // As an axis: counted from the end of what is there, not of where something may be put.
  const auto at = NormalizeAxis((*known)[0], positions);
  if (at) return *at;
  return c.Fail("position " + std::to_string((*known)[0]) + " is outside the sequence");
}

// The sizes of the parts are a list, or one number for all, of which the last part may be smaller. Without
// them each part is one position.
llvm::Expected<Ints> SizesOfParts(const NodeContext& c, int64_t extent) {
  ACT_TRY(const auto given, c.Integers(1));
  if (given && !c.DimsOf(1).empty()) {
    ACT_CHECK_OK(c.CountUnrolled(static_cast<int64_t>(given->size())));
    return *given;
  }
  const int64_t size = given ? (*given)[0] : 1;
  if (size < 1) return c.Fail("has parts of " + std::to_string(size));
  ACT_CHECK_OK(c.CountUnrolled(extent / size + 1));
  Ints sizes(static_cast<size_t>(extent / size), size);
  if (extent % size != 0) sizes.push_back(extent % size);
  return sizes;
}

llvm::Error ImportSplitToSequence(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), from.size()));
  if (!from[axis].IsFixed())
    return c.Fail("splits axis " + std::to_string(axis) + ", which varies with the batch size");
  ACT_TRY(const Ints sizes, SizesOfParts(c, from[axis].fixed));
  if (!ResolveSplit(from[axis], sizes, sizes.size())) return c.Fail("cannot split " + ToString(c.Type(0)));
  ACT_TRY(const ValueId x, c.Value(0));
  // keepdims says nothing beside sizes.
  const bool drops_axis = !c.Has(1) && c.attrs.Int("keepdims", 1) == 0;
  Dims dropped = from;
  dropped.erase(dropped.begin() + static_cast<std::ptrdiff_t>(axis));
  Parts parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    std::vector<SliceRange> ranges = Whole(from);
    ranges[axis] = {start, size, 1};
    ACT_TRY(ValueId part, SliceOf(c, x, ranges));
    if (drops_axis) {
      ACT_TRY(part, c.Reshape(part, dropped));
    }
    parts.push_back({.type = c.TypeOf(part), .value = part});
    start += size;
  }
  return SetSequence(c, c.Type(0), std::move(parts));
}

llvm::Error ImportSequenceEmpty(NodeContext& c) {
  const auto dtype = FromOnnxType(c.attrs.Int("dtype", onnx::TensorProto::FLOAT));
  if (!dtype) return c.Fail("element type " + std::to_string(c.attrs.Int("dtype")) + " is not supported");
  return SetSequence(c, {*dtype, {}}, {});
}

llvm::Error ImportSequenceConstruct(NodeContext& c) {
  Parts parts;
  for (size_t i = 0; i < c.inputs(); ++i) parts.push_back(c.In(i));
  return SetSequence(c, c.Type(0), std::move(parts));
}

llvm::Error ImportSequenceInsert(NodeContext& c) {
  ACT_TRY(const Parts* const sequence, SequenceIn(c, 0));
  size_t at = sequence->size();
  if (c.Has(2)) {
    const auto known = c.In(2).known ? AsIntegers(*c.In(2).known) : std::nullopt;
    const bool at_end = known && known->size() == 1 && (*known)[0] == static_cast<int64_t>(at);
    if (!at_end) {
      ACT_TRY(at, PositionIn(c, 2, at));
    }
  }
  Parts parts = *sequence;
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at), c.In(1));
  return SetSequence(c, c.Type(1), std::move(parts));
}

llvm::Error ImportSequenceErase(NodeContext& c) {
  ACT_TRY(const Parts* const sequence, SequenceIn(c, 0));
  ACT_TRY(const size_t at, PositionIn(c, 1, sequence->size()));
  Parts parts = *sequence;
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
  return SetSequence(c, c.Type(0), std::move(parts));
}

llvm::Error ImportSequenceAt(NodeContext& c) {
  ACT_TRY(const Parts* const sequence, SequenceIn(c, 0));
  ACT_TRY(const size_t at, PositionIn(c, 1, sequence->size()));
  return c.Set(0, Operand((*sequence)[at]));
}

llvm::Error ImportSequenceLength(NodeContext& c) {
  ACT_TRY(const Parts* const sequence, SequenceIn(c, 0));
  return c.Set(0, KnownOperand(IntegerScalar(static_cast<int64_t>(sequence->size()))));
}

llvm::Error ImportConcatFromSequence(NodeContext& c) {
  ACT_TRY(const Parts* const sequence, SequenceIn(c, 0));
  return SetJoined(c, 0, *sequence, c.attrs.Int("axis"), c.attrs.Int("new_axis") != 0);
}

}  // namespace

const std::vector<ImportEntry>& TensorSequenceImports() {
  static const std::vector<ImportEntry> entries = {
      {"SplitToSequence", 1, 2, ImportSplitToSequence},
      {"SequenceEmpty", 0, 0, ImportSequenceEmpty},
      {"SequenceConstruct", 1, -1, ImportSequenceConstruct},
      {"SequenceInsert", 2, 3, ImportSequenceInsert},
      {"SequenceErase", 1, 2, ImportSequenceErase},
      {"SequenceAt", 2, 2, ImportSequenceAt},
      {"SequenceLength", 1, 1, ImportSequenceLength},
      {"ConcatFromSequence", 1, 1, ImportConcatFromSequence},
  };
  return entries;
}

}  // namespace act::onnx_import
