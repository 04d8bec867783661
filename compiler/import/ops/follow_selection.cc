#include "compiler/import/ops/follow_selection.h"

#include <algorithm>
#include <numeric>

#include "compiler/import/fold/fold_shapes.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;
using Followed = llvm::Expected<std::optional<Selection>>;

const TensorType& ResultOf(const NodeContext& c) { return c.importer.Find(c.node.output(0))->type; }
Dim ExtentOf(const NodeContext& c, size_t i) { return c.DimsOf(i)[SelectionOf(c, i)->axis]; }

// Positions of the lengths in a known vector.
Ints CountedIn(const NodeContext& c, size_t i) {
  Ints positions;
  if (!c.Has(i) || !c.In(i).counted) return positions;
  for (size_t k = 0; k < c.In(i).known->elements.size(); ++k)
    if (c.In(i).known->elements[k].counted) positions.push_back(static_cast<int64_t>(k));
  return positions;
}

// Joins what two operands say about which places exist; false where they contradict each other.
bool Join(ValueId& live, ValueId other) {
  if (live == kNoValue) live = other;
  return other == kNoValue || live == other;
}

// Axes are aligned at the last one, as numpy broadcasts.
Followed Elementwise(const NodeContext& c) {
  std::optional<size_t> from_end;
  Selection result;
  for (size_t i = 0; i < InputsRead(c); ++i) {
    if (!SelectionOf(c, i)) continue;
    const size_t at = c.DimsOf(i).size() - SelectionOf(c, i)->axis;
    if (from_end && *from_end != at) return RefuseSelection(c, "another of another axis");
    from_end = at;
    if (!Join(result.live, SelectionOf(c, i)->live))
      return RefuseSelection(c, "another that data selects in another way");
  }
  const Dims& dims = ResultOf(c).dims;
  result.axis = dims.size() - *from_end;
  for (size_t i = 0; i < InputsRead(c); ++i) {
    if (!c.Has(i) || c.DimsOf(i).size() < *from_end) continue;
    const Dim& extent = c.DimsOf(i)[c.DimsOf(i).size() - *from_end];
    if (extent != (SelectionOf(c, i) ? dims[result.axis] : Dim(1)))
      return RefuseSelection(c, "another of a fixed length");
  }
  return result;
}

// Reshape and similar: the axis keeps its length and the number of elements before it.
Followed View(const NodeContext& c) {
  const Dims &from = c.DimsOf(0), &to = ResultOf(c).dims;
  if (!SelectionOf(c, 0)) return RefuseSelection(c, "makes a shape of it that its operand does not have");
  Selection result = *SelectionOf(c, 0);
  const Dim extent = from[result.axis];
  Dim front(1), seen(1);
  for (size_t i = 0; i < result.axis; ++i) front = front * from[i];
  for (size_t i = 0; i < to.size(); ++i) {
    if (seen == front && to[i] == extent) {
      for (const int64_t counted : CountedIn(c, 1))
        if (counted != static_cast<int64_t>(i))
          return RefuseSelection(c, "makes a shape of it that its operand does not have");
      result.axis = i;
      return result;
    }
    seen = seen * to[i];
  }
  return RefuseSelection(c, "joins it with another axis");
}

Followed Transposed(const NodeContext& c) {
  Selection result = *SelectionOf(c, 0);
  const Ints perm = *ResolvePerm(c.attrs, c.DimsOf(0).size());  // the importer has checked it
  const auto at = std::find(perm.begin(), perm.end(), static_cast<int64_t>(result.axis));
  result.axis = static_cast<size_t>(at - perm.begin());
  return result;
}

// In the result, the axes of the indices replace the axis that they select from.
Followed Gathered(const NodeContext& c) {
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), c.DimsOf(0).size()));
  if (SelectionOf(c, 0) && SelectionOf(c, 1)) return RefuseSelection(c, "another");
  if (SelectionOf(c, 1)) return Selection{axis + SelectionOf(c, 1)->axis, SelectionOf(c, 1)->live};
  Selection result = *SelectionOf(c, 0);
  if (result.axis == axis) return RefuseSelection(c, "looks up places in it");
  if (result.axis > axis) result.axis += c.DimsOf(1).size() - 1;
  return result;
}

Followed GatheredByTuples(const NodeContext& c) {
  if (SelectionOf(c, 0)) return RefuseSelection(c, "looks up places in it");
  if (SelectionOf(c, 1)->axis + 1 == c.DimsOf(1).size())
    return RefuseSelection(c, "takes it for a tuple of indices");
  return *SelectionOf(c, 1);
}

llvm::Expected<ValueId> AllLive(const NodeContext& c, const Dim& extent) {
  if (!extent.IsFixed()) return RefuseSelection(c, "puts it beside an axis of the batch");
  const std::vector<uint8_t> ones(static_cast<size_t>(extent.fixed), 1);
  return c.builder().Constant("", {DType::kBool, {extent}}, HostTensor::Copy(ones.data(), extent.fixed));
}

Followed Concatenated(const NodeContext& c) {
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), c.DimsOf(0).size()));
  Selection result{axis, kNoValue};
  std::vector<ValueId> parts;
  bool along = false, across = false, unknown = false;
  for (size_t i = 0; i < c.inputs(); ++i) {
    const auto& selection = SelectionOf(c, i);
    along |= selection && selection->axis == axis;
    across |= selection && selection->axis != axis;
  }
  for (size_t i = 0; i < c.inputs(); ++i) {
    const auto& selection = SelectionOf(c, i);
    if (across) {
      if (along || !selection || (i > 0 && selection->axis != result.axis))
        return RefuseSelection(c, "another that does not have this length");
      result.axis = selection->axis;
      if (!Join(result.live, selection->live))
        return RefuseSelection(c, "another that data selects in another way");
    } else if (selection) {
      parts.push_back(selection->live);
      unknown |= selection->live == kNoValue;
    } else {
      ACT_TRY(const ValueId all, AllLive(c, c.DimsOf(i)[axis]));
      parts.push_back(all);
    }
  }
  if (across || unknown) return result;
  Attributes attrs;
  attrs.Set("axis", int64_t{0});
  if (parts.size() == 1) {
    result.live = parts[0];
  } else {
    ACT_TRY(result.live, c.Emit("Concat", std::move(parts), attrs));
  }
  return result;
}

Followed Expanded(const NodeContext& c) {
  const size_t rank = ResultOf(c).dims.size();
  const Ints counted = CountedIn(c, 1);
  const size_t offset = rank - c.In(1).known->elements.size();
  std::optional<Selection> result = SelectionOf(c, 0);
  if (result) result->axis += rank - c.DimsOf(0).size();
  for (const int64_t position : counted) {
    const size_t axis = offset + static_cast<size_t>(position);
    if (!result) {
      const size_t added = rank - c.DimsOf(0).size();
      if (axis >= added && c.DimsOf(0)[axis - added] != Dim(1))
        return RefuseSelection(c, "expands a fixed length to it");
      result = Selection{axis, kNoValue};
    }
    if (result->axis != axis) return RefuseSelection(c, "another of another axis");
  }
  return result;
}

Followed Filled(const NodeContext& c) {  // ConstantOfShape
  const Ints counted = CountedIn(c, 0);
  if (counted.size() != 1) return RefuseSelection(c, "another of another axis");
  return Selection{static_cast<size_t>(counted[0]), kNoValue};
}

// All of the axis, in its order.
Followed Sliced(const NodeContext& c) {
  if (!SelectionOf(c, 0)) return RefuseSelection(c, "cuts a fixed length by it");
  const Selection result = *SelectionOf(c, 0);
  ACT_TRY(const auto axes, c.Integers(3, "axes"));
  ACT_TRY(const auto steps, c.Integers(4, "steps"));
  for (const int64_t position : CountedIn(c, 2)) {
    const int64_t named = axes ? (*axes)[static_cast<size_t>(position)] : position;
    ACT_TRY(const size_t axis, c.Axis(named, c.DimsOf(0).size()));
    if (axis != result.axis ||
        c.In(2).known->elements[static_cast<size_t>(position)].integer != ExtentOf(c, 0))
      return RefuseSelection(c, "cuts another axis by it");
  }
  const bool backwards = steps && std::any_of(steps->begin(), steps->end(), [](int64_t s) { return s < 0; });
  if (ResultOf(c).dims[result.axis] != ExtentOf(c, 0) || backwards) return RefuseSelection(c, "cuts it");
  return result;
}

Followed MultipliedRows(const NodeContext& c) {
  if (SelectionOf(c, 1) || SelectionOf(c, 2) || !SelectionOf(c, 0))
    return RefuseSelection(c, "multiplies by it");
  const size_t rank = c.DimsOf(0).size();
  Selection result = *SelectionOf(c, 0);
  if (result.axis + 1 == rank || c.DimsOf(1).size() != 2 || c.attrs.Int("transA") != 0)
    return RefuseSelection(c, "adds its places up");
  if (c.Has(2) && c.DimsOf(2).size() == 2 && c.DimsOf(2)[0] != Dim(1))
    return RefuseSelection(c, "another of a fixed length");
  return result;
}

// Operators that normalize the axes from one on: each place by itself.
Followed NormalizedRows(const NodeContext& c) {
  const bool old_softmax = c.opset() < 13 && c.node.op_type().ends_with("Softmax");
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", old_softmax ? 1 : -1), c.DimsOf(0).size()));
  for (size_t i = 1; i < c.inputs(); ++i)
    if (SelectionOf(c, i)) return RefuseSelection(c, "scales by it");
  const Selection result = *SelectionOf(c, 0);
  if (result.axis >= axis) return RefuseSelection(c, "normalizes it");
  return result;
}

Followed ScatteredInto(const NodeContext& c) {
  if (SelectionOf(c, 0)) return RefuseSelection(c, "scatters into it");
  if (!SelectionOf(c, 1) || SelectionOf(c, 1)->live == kNoValue)
    return RefuseSelection(c, "scatters it by indices that are not");
  size_t axis = 0;
  if (c.node.op_type() == "ScatterND") {
    if (c.DimsOf(1).size() != 2) return RefuseSelection(c, "scatters it in another way than row by row");
  } else {
    ACT_TRY(axis, c.Axis(c.attrs.Int("axis"), c.DimsOf(0).size()));
  }
  ValueId live = SelectionOf(c, 1)->live;
  if (SelectionOf(c, 1)->axis != axis || !SelectionOf(c, 2) || SelectionOf(c, 2)->axis != axis ||
      !Join(live, SelectionOf(c, 2)->live))
    return RefuseSelection(c, "scatters it by indices that are selected in another way");
  return std::nullopt;
}

// Shape and Size: marks the length in the known result.
Followed Measured(const NodeContext& c) {
  Operand& made = *c.importer.Defined(c.node.output(0));
  std::vector<Element>& elements = made.known->elements;
  size_t first = 0;
  if (c.node.op_type() == "Shape") {
    const int64_t rank = c.Type(0).rank(), start = c.attrs.Int("start", 0);
    first = static_cast<size_t>(std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank));
  }
  const size_t axis = c.node.op_type() == "Size" ? 0 : SelectionOf(c, 0)->axis;
  if (axis < first || axis - first >= elements.size()) return std::nullopt;
  elements[axis - first].counted = made.counted = true;
  elements[axis - first].live = SelectionOf(c, 0)->live;
  return std::nullopt;
}

constexpr SelectionRule kRules[] = {
    {"Dropout", Elementwise},
    {"Less", Elementwise},
    {"Floor", Elementwise},
    {"Reshape", View, 1},
    {"Flatten", View},
    {"Squeeze", View},
    {"Unsqueeze", View},
    {"Transpose", Transposed},
    {"Gather", Gathered},
    {"GatherND", GatheredByTuples},
    {"Concat", Concatenated},
    {"Expand", Expanded, 1},
    {"Slice", Sliced, 2},
    {"ConstantOfShape", Filled, 0},
    {"Softmax", NormalizedRows},
    {"LogSoftmax", NormalizedRows},
    {"LayerNormalization", NormalizedRows},
    {"RMSNormalization", NormalizedRows},
    {"MatMul", MultipliedRows},
    {"Gemm", MultipliedRows},
    {"Scatter", ScatteredInto},
    {"ScatterElements", ScatteredInto},
    {"ScatterND", ScatteredInto},
    {"Shape", Measured},
    {"Size", Measured},
};

}  // namespace

const std::optional<Selection>& SelectionOf(const NodeContext& c, size_t i) {
  static const std::optional<Selection> none;
  return c.Has(i) ? c.In(i).selection : none;
}

size_t InputsRead(const NodeContext& c) { return c.node.op_type() == "CastLike" ? 1 : c.inputs(); }

llvm::Error RefuseSelection(const NodeContext& c, const std::string& why) {
  return c.Fail("reads a tensor whose length depends on data (a NonZero), and " + why,
                "shapes must follow from the shapes of the inputs");
}

std::optional<SelectionRule> SelectionRuleOf(const std::string& op) {
  for (const SelectionRule& rule : kRules)
    if (op == rule.op) return rule;
  for (const auto* family : {&ElementwiseImports(), &LogicImports(), &IntegerImports()})
    for (const ImportEntry& entry : *family)
      if (op == entry.op) return SelectionRule{entry.op, Elementwise, -1};
  return std::nullopt;
}

}  // namespace act::onnx_import
