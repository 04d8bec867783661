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

// Operand `i` with a number instead in the places that do not exist.
llvm::Expected<ValueId> Masked(const NodeContext& c, size_t i, const Selection& selection, ValueId instead) {
  ACT_TRY(const ValueId x, c.Value(i));
  Dims dims(c.DimsOf(i).size(), Dim(1));
  dims[selection.axis] = c.DimsOf(i)[selection.axis];
  ACT_TRY(const ValueId live, c.Reshape(selection.live, dims));
  return IsFloat(c.Type(i).dtype) ? c.Emit("Where", {live, x, instead})
                                  : Integer(c, "select", {live, x, instead});
}

// Imports the node with `value` for its input `i`.
llvm::Error ImportWith(NodeContext& c, onnx::NodeProto node, int i, ValueId value) {
  node.set_input(i, c.node.output(0) + "/live");
  ACT_CHECK_OK(c.importer.Define(node.input(i), Operand{.type = c.TypeOf(value), .value = value}));
  return c.importer.ImportNode(node);
}

// The mean of the places that exist: that of all, with zeros for the others, divided by the share of them that exist.
llvm::Error ImportMean(NodeContext& c, const Selection& selection, const std::vector<bool>& reduced) {
  ACT_TRY(const ValueId masked, Masked(c, 0, selection, c.builder().Scalar(0)));
  Ints axes;
  for (size_t i = 0; i < reduced.size(); ++i)
    if (reduced[i]) axes.push_back(static_cast<int64_t>(i));
  ACT_TRY(const ValueId mean, c.Emit("ReduceMean", {masked}, Over(axes, c.attrs.Int("keepdims", 1) != 0)));
  ACT_TRY(const ValueId live, c.Cast(selection.live, DType::kFloat32));
  ACT_TRY(const ValueId share, c.Emit("ReduceMean", {live}, Over({0}, false)));
  return c.Return(c.Emit("Div", {mean, share}));
}

// The loss of selected rows: labels of rows that do not exist are ignored.
llvm::Error ImportSelectedLoss(NodeContext& c) {
  const auto &scores = SelectionOf(c, 0), &labels = SelectionOf(c, 1);
  if (!scores || !labels || scores->axis != 0 || labels->axis != 0 || scores->live != labels->live ||
      scores->live == kNoValue || IsFloat(c.Type(1).dtype))
    return RefuseSelection(c, "another that data selects in another way");
  if (c.WantsOutput(1) || SelectionOf(c, 2) || c.attrs.String("reduction", "mean") == "none")
    return RefuseSelection(c, "makes a tensor of its places");
  const int64_t ignored = c.attrs.Int("ignore_index", -100);
  ACT_TRY(const ValueId instead, IntegerConstant(c, c.Type(1).dtype, ignored));
  ACT_TRY(const ValueId masked, Masked(c, 1, *labels, instead));
  onnx::NodeProto node = c.node;
  node.set_input(0, c.node.output(0) + "/scores");
  Operand all = c.In(0);
  all.selection.reset();
  ACT_CHECK_OK(c.importer.Define(node.input(0), std::move(all)));
  if (!c.attrs.Has("ignore_index")) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name("ignore_index");
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(ignored);
  }
  return ImportWith(c, std::move(node), 1, masked);
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
  if (selection.live == kNoValue) return RefuseSelection(c, "reduces it");
  if (c.node.op_type() == "ReduceMean" && IsFloat(c.Type(0).dtype)) return ImportMean(c, selection, reduced);
  ACT_TRY(const auto neutral, NeutralOf(c));
  if (!neutral) return RefuseSelection(c, "reduces it");
  ACT_TRY(const ValueId masked, Masked(c, 0, selection, *neutral));
  return ImportWith(c, c.node, 0, masked);
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
  if (!IsStandardDomain(c.node.domain())) return RefuseSelection(c, "does not support that");
  if (MovesLengths(c)) return plain();
  if (c.node.op_type().rfind("Reduce", 0) == 0 && SelectionOf(c, 0) && (!c.Has(1) || !c.In(1).counted))
    return ImportReduction(c, plain);
  if (c.node.op_type() == "SoftmaxCrossEntropyLoss" || c.node.op_type() == "NegativeLogLikelihoodLoss")
    return ImportSelectedLoss(c);
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
