// Reductions over axes.
#include <algorithm>

#include "compiler/import/importer.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

struct Reduction {
  const char* onnx;
  const char* before;  // applied to each element; null: nothing
  const char* reduce;
  const char* after;  // applied to the result; null: nothing
};
constexpr Reduction kReductions[] = {
    {"ReduceSum", nullptr, "ReduceSum", nullptr},        {"ReduceMean", nullptr, "ReduceMean", nullptr},
    {"ReduceMax", nullptr, "ReduceMax", nullptr},        {"ReduceMin", "Neg", "ReduceMax", "Neg"},
    {"ReduceL1", "Abs", "ReduceSum", nullptr},           {"ReduceL2", "Square", "ReduceSum", "Sqrt"},
    {"ReduceSumSquare", "Square", "ReduceSum", nullptr}, {"ReduceLogSum", nullptr, "ReduceSum", "Log"},
};

// Over all spatial axes of [N, C, S..] a reduction is a global pooling, and reads the channels-last form.
bool IsGlobalPooling(const Ints& axes, int64_t rank) {
  if (rank < 3 || static_cast<int64_t>(axes.size()) != rank - 2) return false;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i) + 2) return false;
  return true;
}

llvm::Error ImportReduction(NodeContext& c) {
  const Reduction* reduction = nullptr;
  for (const Reduction& r : kReductions)
    if (c.node.op_type() == r.onnx) reduction = &r;
  const int64_t rank = c.Type(0).rank();
  ACT_TRY(const auto given, c.Integers(1, "axes"));
  Ints axes;
  for (int64_t a : given.value_or(Ints{})) {
    ACT_TRY(const size_t axis, c.Axis(a, static_cast<size_t>(rank)));
    axes.push_back(static_cast<int64_t>(axis));
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  ACT_TRY(ValueId x, c.Value(0));
  if (axes.empty()) {
    if (c.attrs.Int("noop_with_empty_axes") != 0) return c.Set(0, x);
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  const bool keep = c.attrs.Int("keepdims", 1) != 0;
  const bool pooling = IsGlobalPooling(axes, rank);
  if (pooling) {
    ACT_TRY(x, c.ToChannelsLast(x));
    for (int64_t& axis : axes) --axis;
  }
  if (reduction->before) {
    ACT_TRY(x, c.Emit(reduction->before, {x}));
  }
  Attributes attrs;
  attrs.Set("axes", axes);
  attrs.Set("keepdims", int64_t{keep});
  ACT_TRY(ValueId y, c.Emit(reduction->reduce, {x}, attrs));
  if (reduction->after) {
    ACT_TRY(y, c.Emit(reduction->after, {y}));
  }
  return pooling && keep ? c.Return(c.ToChannelsFirst(y)) : c.Set(0, y);
}

}  // namespace

const std::vector<ImportEntry>& ReductionImports() {
  static const std::vector<ImportEntry> entries = [] {
    std::vector<ImportEntry> list;
    for (const Reduction& r : kReductions) list.push_back({r.onnx, 1, 2, ImportReduction});
    return list;
  }();
  return entries;
}

}  // namespace act::onnx_import
