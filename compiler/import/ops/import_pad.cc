// Pads, of whose modes the wrapping one becomes a Concat of what it repeats.
#include <algorithm>

#include "compiler/import/core/importer.h"
#include "compiler/import/ops/integers.h"
#include "compiler/import/ops/slices.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// Pads with a number that is computed, or an integer that float32 does not have: selects it where
// the padding of a tensor of ones is 0.
llvm::Error PadWithOperand(NodeContext& c, ValueId x, const Attributes& pads) {
  if (c.Type(2).Elements() != Dim(1)) return c.Fail("the padding value must be one number");
  Known ones = IntegerScalar(1);
  ones.type = {DType::kBool, c.DimsOf(0)};
  ACT_TRY(const ValueId whole, c.importer.Materialize(KnownOperand(std::move(ones))));
  ACT_TRY(const ValueId inside, c.Emit("Pad", {whole}, pads));
  ACT_TRY(const ValueId padded, c.Emit("Pad", {x}, pads));
  ACT_TRY(const ValueId given, c.Value(2));
  ACT_TRY(const ValueId value, c.Reshape(given, {}));
  return c.Return(IsFloat(c.Type(0).dtype) ? c.Emit("Where", {inside, padded, value})
                                           : Integer(c, "select", {inside, padded, value}));
}

// One axis as if its end were followed by its beginning again. A negative pad crops, before anything is
// repeated, as in PyTorch and ONNX Runtime.
llvm::Expected<ValueId> WrapAxis(const NodeContext& c, ValueId x, size_t axis, int64_t before,
                                 int64_t after) {
  constexpr int64_t kMostParts = 1000;
  if (!c.TypeOf(x).dims[axis].IsFixed())
    return c.Fail("wraps an axis whose extent depends on the batch size");
  const auto range = [&](int64_t start, int64_t length) {
    std::vector<SliceRange> ranges = Whole(c.TypeOf(x).dims);
    ranges[axis] = {start, length, 1};
    return SliceOf(c, x, ranges);
  };
  const int64_t whole = c.TypeOf(x).dims[axis].fixed;
  if (before < -whole || after < -whole) return c.Fail("crops more than there is");
  const int64_t n = whole + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
  if (n < 0) return c.Fail("crops more than there is");
  ACT_TRY(x, range(std::max<int64_t>(-before, 0), n));
  before = std::max<int64_t>(before, 0);
  after = std::max<int64_t>(after, 0);
  if (before == 0 && after == 0) return x;
  if (n == 0) return c.Fail("an empty axis cannot be wrapped");
  if (before / n > kMostParts || after / n > kMostParts)
    return c.Fail("repeats an axis more than 1000 times");
  int64_t left = SaturatingAdd(n, SaturatingAdd(before, after));
  std::vector<ValueId> parts;
  for (int64_t start = ((-before) % n + n) % n; left > 0; start = 0) {
    const int64_t length = std::min(n - start, left);
    ACT_TRY(const ValueId part, range(start, length));
    parts.push_back(part);
    left -= length;
  }
  return parts.size() == 1 ? parts[0] : c.Emit("Concat", std::move(parts), Along(axis));
}

llvm::Error Wrap(NodeContext& c, ValueId x, const Ints& pads) {
  const size_t rank = pads.size() / 2;
  for (size_t axis = 0; axis < rank; ++axis)
    if (pads[axis] != 0 || pads[axis + rank] != 0) {
      ACT_TRY(x, WrapAxis(c, x, axis, pads[axis], pads[axis + rank]));
    }
  return c.Set(0, x);
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
  if (mode == "wrap") return Wrap(c, x, pads);
  if (mode != "constant" && mode != "reflect" && mode != "edge")
    return c.Fail("mode " + mode + " is not supported");
  Attributes attrs;
  attrs.Set("pads", pads);
  attrs.Set("mode", mode);
  constexpr double kExact = 1 << 24;  // the attribute is kept as a float32
  const bool exact = IsFloat(c.Type(0).dtype) || !c.Has(2) || std::abs(c.Number(2).value_or(0)) <= kExact;
  if (mode == "constant" && (!exact || (c.Has(2) && !c.Number(2)))) return PadWithOperand(c, x, attrs);
  attrs.Set("value", c.Has(2) ? c.Number(2).value_or(0) : c.attrs.Float("value", 0));
  return c.Return(c.Emit("Pad", {x}, attrs));
}

}  // namespace

const std::vector<ImportEntry>& PadImports() {
  static const std::vector<ImportEntry> entries = {{"Pad", 1, 4, ImportPad}};
  return entries;
}

}  // namespace act::onnx_import
