// Passes axes whose length depends on data (Selection) through operators that give the same numbers
// if all places exist. Each such operator has a rule (follow_selection.h); all others refuse. Known
// tensors that hold such a length (the Shape of a selection, and what follows from it) may be
// moved, added to and used as a shape.
#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/import/ops/follow_selection.h"
#include "compiler/import/ops/integers.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The extreme values of an integer type.
std::pair<int64_t, int64_t> RangeOf(DType dtype) {
  const int64_t bits = 8 * ByteSize(dtype);
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kUint64:
      return {0, -1};  // the bits of the largest
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
      return {0, (int64_t{1} << bits) - 1};
    default:
      return {std::numeric_limits<int64_t>::min() >> (64 - bits),
              std::numeric_limits<int64_t>::max() >> (64 - bits)};
  }
}

// The number that places which do not exist get, so that a reduction ignores them; nullopt where no
// number does that.
llvm::Expected<std::optional<ValueId>> NeutralOf(const NodeContext& c) {
  const std::string& reduction = c.node.op_type();
  const DType dtype = c.Type(0).dtype;
  const bool max = reduction == "ReduceMax", extreme = max || reduction == "ReduceMin";
  if (!extreme && reduction != "ReduceSum" && reduction != "ReduceSumSquare" && reduction != "ReduceL1" &&
      reduction != "ReduceL2")
    return std::optional<ValueId>();
  if (!IsFloat(dtype)) {
    const auto [least, most] = RangeOf(dtype);
    ACT_TRY(const ValueId neutral, IntegerConstant(c, dtype, !extreme ? 0 : max ? least : most));
    return std::optional(neutral);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  return std::optional(c.builder().Scalar(!extreme ? 0 : max ? -infinity : infinity));
}

// A reduction over the selected axis puts neutral numbers in the places that do not exist. A
// reduction over other axes leaves the selection as it is.
llvm::Error ImportReduction(NodeContext& c, const std::function<llvm::Error()>& plain) {
  const Selection selection = *SelectionOf(c, 0);
  const size_t rank = c.DimsOf(0).size();
  ACT_TRY(const auto given, c.Integers(1, "axes"));
  std::vector<bool> reduced(rank, !given || given->empty());
  if (reduced.size() == rank && given && given->empty() && c.attrs.Int("noop_with_empty_axes") != 0)
    reduced.assign(rank, false);
  for (const int64_t a : given.value_or(Ints{})) {
    ACT_TRY(const size_t axis, c.Axis(a, rank));
    reduced[axis] = true;
  }
  if (!reduced[selection.axis]) {
    ACT_CHECK_OK(plain());
    Selection left = selection;
    if (c.attrs.Int("keepdims", 1) == 0)
      left.axis -= static_cast<size_t>(
          std::count(reduced.begin(), reduced.begin() + static_cast<std::ptrdiff_t>(selection.axis), true));
    c.importer.Defined(c.node.output(0))->selection = left;
    return llvm::Error::success();
  }
  ACT_TRY(const auto neutral, NeutralOf(c));
  if (!neutral || selection.live == kNoValue) return RefuseSelection(c, "reduces it");
  ACT_TRY(const ValueId x, c.Value(0));
  Dims dims(rank, Dim(1));
  dims[selection.axis] = c.DimsOf(0)[selection.axis];
  ACT_TRY(const ValueId live, c.Reshape(selection.live, dims));
  ACT_TRY(const ValueId masked, IsFloat(c.Type(0).dtype) ? c.Emit("Where", {live, x, *neutral})
                                                         : Integer(c, "select", {live, x, *neutral}));
  onnx::NodeProto node = c.node;
  node.set_input(0, c.node.output(0) + "/live");
  ACT_CHECK_OK(c.importer.Define(node.input(0), Operand{.type = c.TypeOf(masked), .value = masked}));
  return c.importer.ImportNode(node);
}

// Operators on known tensors that may read a length: in any input, or only in the first.
bool MovesLengths(const NodeContext& c) {
  static constexpr const char* kAll[] = {"Add", "Mul", "Concat", "Equal", "Where"};
  static constexpr const char* kFirst[] = {"Gather",  "Slice",    "Unsqueeze", "Squeeze",
                                           "Reshape", "Identity", "Cast",      "CastLike"};
  const auto is = [&c](const char* op) { return c.node.op_type() == op; };
  const bool all = std::any_of(std::begin(kAll), std::end(kAll), is);
  if (!all && std::none_of(std::begin(kFirst), std::end(kFirst), is)) return false;
  for (size_t i = 0; i < c.inputs(); ++i)
    if (c.Has(i) && (!c.In(i).known || c.In(i).selection || (c.In(i).counted && i > 0 && !all))) return false;
  return true;
}

}  // namespace

bool ReadsSelection(const NodeContext& c) {
  for (size_t i = 0; i < InputsRead(c); ++i)
    if (c.Has(i) && (c.In(i).selection || c.In(i).counted)) return true;
  return false;
}

llvm::Error ImportSelected(NodeContext& c, const std::function<llvm::Error()>& plain) {
  if (!c.node.domain().empty() && c.node.domain() != "ai.onnx")
    return RefuseSelection(c, "does not support that");
  if (MovesLengths(c)) return plain();
  if (c.node.op_type().rfind("Reduce", 0) == 0 && SelectionOf(c, 0) && (!c.Has(1) || !c.In(1).counted))
    return ImportReduction(c, plain);
  const auto rule = SelectionRuleOf(c.node.op_type());
  if (!rule || !c.WantsOutput(0)) return RefuseSelection(c, "does not support that");
  for (size_t i = 0; i < InputsRead(c); ++i)
    if (c.Has(i) && c.In(i).counted && static_cast<int>(i) != rule->shape_input)
      return RefuseSelection(c, "uses the length as data");
  ACT_CHECK_OK(plain());
  ACT_TRY(const std::optional<Selection> selection, rule->follow(c));
  for (size_t i = 0; i < c.outputs(); ++i)
    if (Operand* made = c.importer.Defined(c.node.output(static_cast<int>(i)))) made->selection = selection;
  return llvm::Error::success();
}

}  // namespace act::onnx_import
