// Reductions over axes.
#include <algorithm>

#include "compiler/import/ops/integers.h"

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
    {"ReduceL1", "Abs", "ReduceSum", nullptr},           {"ReduceL2", "Square", "ReduceSum", "SqrtOfSquares"},
    {"ReduceSumSquare", "Square", "ReduceSum", nullptr}, {"ReduceLogSum", nullptr, "ReduceSum", "Log"},
};

// A reduction over all spatial axes of [N, C, S..] is a global pooling and reads the channels-last
// form.
bool IsGlobalPooling(const Ints& axes, int64_t rank) {
  if (rank < 3 || static_cast<int64_t>(axes.size()) != rank - 2) return false;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i) + 2) return false;
  return true;
}

struct Axes {
  Ints axes;  // in order
  bool keep = true;
};

// The axes that are reduced. Where there are none, though the tensor has axes, the operator does
// nothing.
llvm::Expected<Axes> AxesOf(NodeContext& c) {
  const int64_t rank = c.Type(0).rank();
  ACT_TRY(const auto given, c.Integers(1, "axes"));
  Ints axes;
  for (int64_t a : given.value_or(Ints{})) {
    ACT_TRY(const size_t axis, c.Axis(a, static_cast<size_t>(rank)));
    axes.push_back(static_cast<int64_t>(axis));
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (axes.empty() && c.attrs.Int("noop_with_empty_axes") == 0)
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  return Axes{axes, c.attrs.Int("keepdims", 1) != 0};
}

// The same exactly, in a type of integers.
struct IntegerReduction {
  const char* onnx;
  const char* op;  // of `IntegerReduce`
  bool absolute = false, squared = false;
};
constexpr IntegerReduction kIntegerReductions[] = {
    {"ReduceSum", "add"},
    {"ReduceMean", "mean"},
    {"ReduceProd", "mul"},
    {"ReduceMax", "max"},
    {"ReduceMin", "min"},
    {"ReduceL1", "add", true},
    {"ReduceSumSquare", "add", false, true},
};

llvm::Error ImportIntegerReduction(NodeContext& c) {
  const std::string& op = c.node.op_type();
  const DType dtype = c.Type(0).dtype;
  if (dtype == DType::kBool && op != "ReduceMax" && op != "ReduceMin")
    return c.Fail("adds up or multiplies bool, which ONNX does not define",
                  "cast the operand to int64 first (in PyTorch: mask.long())");
  const IntegerReduction* reduction = nullptr;
  for (const IntegerReduction& r : kIntegerReductions)
    if (op == r.onnx) reduction = &r;
  if (!reduction)
    return c.Fail("has no exact result in " + std::string(ToString(dtype)),
                  "cast the operand to float32 first");
  ACT_TRY(const Axes over, AxesOf(c));
  ACT_TRY(ValueId x, c.Value(0));
  const bool none = over.axes.empty() && c.Type(0).rank() > 0;
  if (reduction->absolute) {
    ACT_TRY(x, Integer(c, "abs", {x}));
  }
  if (reduction->squared) {
    ACT_TRY(x, Integer(c, "mul", {x, x}));
  }
  return none ? c.Set(0, x) : c.Return(ReduceIntegers(c, x, reduction->op, over.axes, over.keep));
}

llvm::Error ImportReduction(NodeContext& c) {
  if (!IsFloat(c.Type(0).dtype)) return ImportIntegerReduction(c);
  // ReduceSumTraining is ReduceSum with its axes as an input at every opset.
  const std::string name = c.node.op_type() == "ReduceSumTraining" ? "ReduceSum" : c.node.op_type();
  const Reduction* reduction = nullptr;
  for (const Reduction& r : kReductions)
    if (name == r.onnx) reduction = &r;
  ACT_TRY(auto over, AxesOf(c));
  auto& [axes, keep] = over;
  const int64_t rank = c.Type(0).rank();
  ACT_TRY(ValueId x, c.Value(0));
  const bool none = axes.empty() && rank > 0;  // each element alone; absolute values, squares and so on stay
  const bool pooling = IsGlobalPooling(axes, rank);
  if (pooling) {
    ACT_TRY(x, c.ToChannelsLast(x));
    for (int64_t& axis : axes) --axis;
  }
  if (reduction->before) {
    ACT_TRY(x, c.Emit(reduction->before, {x}));
  }
  ValueId y = x;
  if (!none) {
    ACT_TRY(y, c.Emit(reduction->reduce, {x}, Over(axes, keep)));
  }
  if (reduction->after) {
    ACT_TRY(y, c.Emit(reduction->after, {y}));
  }
  return pooling && keep ? c.Return(c.ToChannelsFirst(y)) : c.Set(0, y);
}

Dims Reduced(const Dims& from, const Axes& over) {
  Dims dims;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool reduced =
        std::find(over.axes.begin(), over.axes.end(), static_cast<int64_t>(i)) != over.axes.end();
    if (!reduced || over.keep) dims.push_back(reduced ? Dim(1) : from[i]);
  }
  return dims;
}

// ln(sum(e^x)) = ln(sum(e^(x - max))) + max. What max passes on to x in the first term is minus what it passes on in
// the second, so it has no gradient.
llvm::Error ImportLogSumExp(NodeContext& c) {
  if (!IsFloat(c.Type(0).dtype)) return ImportIntegerReduction(c);
  ACT_TRY(const Axes over, AxesOf(c));
  ACT_TRY(const ValueId x, c.Value(0));
  ACT_TRY(const ValueId largest, c.Emit("ReduceMax", {x}, Over(over.axes, true)));
  ACT_TRY(const ValueId max, c.Emit("StopGradient", {largest}));
  ACT_TRY(const ValueId shifted, c.Emit("Sub", {x, max}));
  ACT_TRY(const ValueId power, c.Emit("Exp", {shifted}));
  ACT_TRY(const ValueId sum, c.Emit("ReduceSum", {power}, Over(over.axes, true)));
  ACT_TRY(const ValueId log, c.Emit("Log", {sum}));
  ACT_TRY(const ValueId y, c.Emit("Add", {log, max}));
  return c.Return(c.Reshape(y, Reduced(c.DimsOf(0), over)));
}

// Multiplies halves until one element is left. The gradient is then right at zeros too, since it
// multiplies the other elements instead of dividing by one.
llvm::Error ImportReduceProd(NodeContext& c) {
  if (!IsFloat(c.Type(0).dtype)) return ImportIntegerReduction(c);
  ACT_TRY(const Axes over, AxesOf(c));
  ACT_TRY(ValueId x, c.Value(0));
  for (const int64_t a : over.axes) {
    const auto axis = static_cast<size_t>(a);
    Dims dims = c.TypeOf(x).dims;
    if (!dims[axis].IsFixed() || dims[axis].fixed < 1)
      return c.Fail("a product over an axis of " + ToString(dims[axis]) + " is not supported");
    const auto slice = [&](int64_t start, int64_t extent) {
      Ints starts(dims.size(), 0);
      starts[axis] = start;
      Dims part = dims;
      part[axis] = extent;
      return c.builder().Slice(x, starts, part, Ints(dims.size(), 1), c.name());
    };
    for (int64_t n = dims[axis].fixed; n > 1; dims = c.TypeOf(x).dims, n = dims[axis].fixed) {
      ACT_TRY(const ValueId low, slice(0, n / 2));
      ACT_TRY(const ValueId high, slice(n / 2, n / 2));
      ACT_TRY(ValueId y, c.Emit("Mul", {low, high}));
      if (n % 2 == 1) {
        ACT_TRY(const ValueId rest, slice(n - 1, 1));
        Attributes attrs;
        attrs.Set("axis", a);
        ACT_TRY(y, c.Emit("Concat", {y, rest}, attrs));
      }
      x = y;
    }
  }
  return c.Return(c.Reshape(x, Reduced(c.DimsOf(0), over)));
}

}  // namespace

const std::vector<ImportEntry>& ReductionImports() {
  static const std::vector<ImportEntry> entries = [] {
    std::vector<ImportEntry> list = {{"ReduceProd", 1, 2, ImportReduceProd},
                                     {"ReduceLogSumExp", 1, 2, ImportLogSumExp},
                                     {"ReduceSumTraining", 2, 2, ImportReduction, kMicrosoft}};
    for (const Reduction& r : kReductions) list.push_back({r.onnx, 1, 2, ImportReduction});
    return list;
  }();
  return entries;
}

}  // namespace act::onnx_import
