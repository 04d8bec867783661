// Passes axes whose length depends on data (Selection) through operators that give the same numbers
// if all places exist. Each such operator has a rule (follow_selection.h); all others refuse. Known
// tensors that hold such a length (the Shape of a selection, and what follows from it) may be
// moved, added to and used as a shape.
#include <algorithm>
#include <limits>

#include "compiler/import/ops/follow_selection.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The number that places which do not exist get, so that a reduction ignores them; nullopt where no
// number does that.
std::optional<float> NeutralOf(const std::string& reduction) {
  if (reduction == "ReduceMax") return -std::numeric_limits<float>::infinity();
  if (reduction == "ReduceMin") return std::numeric_limits<float>::infinity();
  if (reduction == "ReduceSum" || reduction == "ReduceSumSquare" || reduction == "ReduceL1" ||
      reduction == "ReduceL2")
    return 0.0f;
  return std::nullopt;
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
  const auto neutral = NeutralOf(c.node.op_type());
  if (!neutral || selection.live == kNoValue) return RefuseSelection(c, "reduces it");
  ACT_TRY(const ValueId x, c.Value(0));
  Dims dims(rank, Dim(1));
  dims[selection.axis] = c.DimsOf(0)[selection.axis];
  ACT_TRY(const ValueId live, c.Reshape(selection.live, dims));
  ACT_TRY(const ValueId masked, c.Emit("Where", {live, x, c.builder().Scalar(*neutral)}));
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
