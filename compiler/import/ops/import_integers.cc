// Elementwise operators and reductions of integers, computed exactly by our operators `Integer` and
// `IntegerReduce`. Fused loops compute in float32; operators that are exact there (comparisons of
// small numbers, masks) stay in them.
#include <algorithm>
#include <cstdlib>

#include "compiler/import/known/onnx_types.h"
#include "compiler/import/ops/integers.h"

namespace act::onnx_import {

llvm::Expected<ValueId> Integer(const NodeContext& c, const std::string& op, std::vector<ValueId> x,
                                std::optional<DType> to) {
  Attributes attrs;
  attrs.Set("op", op);
  if (to) attrs.Set("to", static_cast<int64_t>(*to));
  return c.Emit("Integer", std::move(x), std::move(attrs));
}

llvm::Expected<ValueId> IntegerConstant(const NodeContext& c, DType dtype, int64_t value) {
  return c.importer.MaterializeToBroadcast(KnownOperand({{dtype, {}}, {Element{Dim(value)}}}));
}

llvm::Expected<ValueId> ReduceIntegers(const NodeContext& c, ValueId x, const std::string& op,
                                       std::vector<int64_t> axes, bool keep) {
  Attributes attrs;
  attrs.Set("op", op);
  attrs.Set("axes", std::move(axes));
  attrs.Set("keepdims", int64_t{keep});
  return c.Emit("IntegerReduce", {x}, std::move(attrs));
}

llvm::Expected<ValueId> MultiplyIntegerMatrices(const NodeContext& c, ValueId a, ValueId b) {
  Dims rows = c.TypeOf(a).dims, columns = c.TypeOf(b).dims;
  const Dim inner = columns[columns.size() - 2];
  if (rows.back() != inner)
    return c.Fail("cannot multiply " + ToString(c.TypeOf(a)) + " and " + ToString(c.TypeOf(b)));
  rows.push_back(1);
  columns.insert(columns.end() - 2, Dim(1));
  ACT_TRY(const ValueId left, c.Reshape(a, rows));
  ACT_TRY(const ValueId right, c.Reshape(b, columns));
  ACT_TRY(const ValueId products, Integer(c, "mul", {left, right}));
  return ReduceIntegers(c, products, "add", {c.TypeOf(products).rank() - 2}, false);
}

namespace {

constexpr int64_t kExact = int64_t{1} << 24;  // integers up to here are float32 numbers

struct Name {
  const char* onnx;
  const char* ours;  // attribute `op` (runtime/plan/integer_op.h)
};
constexpr Name kNames[] = {
    {"Add", "add"},
    {"Sub", "sub"},
    {"Mul", "mul"},
    {"Div", "div"},
    {"Max", "max"},
    {"Min", "min"},
    {"Neg", "neg"},
    {"Abs", "abs"},
    {"Sign", "sign"},
    {"BitwiseAnd", "and"},
    {"BitwiseOr", "or"},
    {"BitwiseXor", "xor"},
    {"BitwiseNot", "not"},
    {"Equal", "equal"},
    {"Greater", "greater"},
    {"Less", "less"},
    {"LessOrEqual", "greater"},
    {"GreaterOrEqual", "less"},  // the opposite
};

// Applies the operator to all operands, from left to right where there are more than two. Known
// operands that do not widen the others stay small.
llvm::Error ImportOperation(NodeContext& c) {
  std::string op;
  for (const Name& name : kNames)
    if (c.node.op_type() == name.onnx) op = name.ours;
  if (op.empty()) op = c.attrs.Int("fmod") != 0 ? "rem" : "mod";
  ACT_TRY(ValueId result, c.inputs() == 2 ? c.BroadcastValue(0, c.DimsOf(1)) : c.Value(0));
  if (c.inputs() == 1 && c.node.op_type() != "Max" && c.node.op_type() != "Min") {
    ACT_TRY(result, Integer(c, op, {result}));
  }
  for (size_t i = 1; i < c.inputs(); ++i) {
    ACT_TRY(const ValueId x, c.BroadcastValue(i, c.TypeOf(result).dims));
    ACT_TRY(result, Integer(c, op, {result, x}));
  }
  if (c.node.op_type().ends_with("OrEqual")) {
    ACT_TRY(result, c.Emit("Equal", {result, c.builder().Scalar(0)}));
  }
  return c.Return(c.ExpandToInputs(result));
}

llvm::Error ImportBitShift(NodeContext& c) {
  const std::string direction = c.attrs.String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") return c.Fail("direction must be LEFT or RIGHT");
  ACT_TRY(const ValueId x, c.BroadcastValue(0, c.DimsOf(1)));
  ACT_TRY(const ValueId by, c.BroadcastValue(1, c.DimsOf(0)));
  ACT_TRY(const ValueId y, Integer(c, direction == "LEFT" ? "shift-left" : "shift-right", {x, by}));
  return c.Return(c.ExpandToInputs(y));
}

// The result has the base's type, whatever the exponent's.
llvm::Error ImportPow(NodeContext& c) {
  const DType base = c.Type(0).dtype, exponent = c.Type(1).dtype;
  ACT_TRY(ValueId x, c.BroadcastValue(0, c.DimsOf(1)));
  ACT_TRY(ValueId n, c.BroadcastValue(1, c.DimsOf(0)));
  if (IsFloat(exponent)) {
    ACT_TRY(x, c.Cast(x, DType::kFloat32));
    ACT_TRY(const ValueId power, c.Emit("Pow", {x, n}));
    ACT_TRY(const ValueId y, c.Cast(power, base));
    return c.Return(c.ExpandToInputs(y));
  }
  if (exponent != base) {
    ACT_TRY(n, Integer(c, "cast", {n}, base));
  }
  ACT_TRY(const ValueId y, Integer(c, "pow", {x, n}));
  return c.Return(c.ExpandToInputs(y));
}

llvm::Error ImportClip(NodeContext& c) {
  ACT_TRY(ValueId x, c.Value(0));
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (!c.Has(i)) continue;
    ACT_TRY(const ValueId bound, c.BroadcastValue(i, c.DimsOf(0)));
    ACT_TRY(x, Integer(c, i == 1 ? "max" : "min", {x, bound}));
  }
  return c.Set(0, x);
}

llvm::Error ImportRelu(NodeContext& c) {
  ACT_TRY(const ValueId x, c.Value(0));
  ACT_TRY(const ValueId zero, IntegerConstant(c, c.Type(0).dtype, 0));
  return c.Return(Integer(c, "max", {x, zero}));
}

llvm::Error ImportWhere(NodeContext& c) {
  if (c.Type(0).dtype != DType::kBool)
    return c.Fail("the condition must be bool, it is " + ToString(c.Type(0)));
  ACT_TRY(const ValueId condition, c.Value(0));
  ACT_TRY(const ValueId a, c.BroadcastValue(1, c.DimsOf(2)));
  ACT_TRY(const ValueId b, c.BroadcastValue(2, c.DimsOf(1)));
  ACT_TRY(const ValueId y, Integer(c, "select", {condition, a, b}));
  return c.Return(c.ExpandToInputs(y));
}

std::optional<DType> CastTarget(const NodeContext& c) {
  if (c.node.op_type() == "Cast") return FromOnnxType(c.attrs.Int("to"));
  return c.Has(1) ? std::optional(c.Type(1).dtype) : std::nullopt;  // CastLike, of however many inputs
}

llvm::Error ImportCast(NodeContext& c) {
  const std::optional<DType> to = CastTarget(c);
  if (c.Type(0).dtype == *to) return c.Set(0, Operand(c.In(0)));
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(Integer(c, "cast", {x}, *to));
}

bool IsComparison(const std::string& op) {
  return op == "Equal" || op == "Greater" || op == "Less" || op.ends_with("OrEqual");
}

// Rounding to float32 keeps the order, so that comparing with a number of at most 2^24 is exact; so
// are all numbers of 16 bits.
bool ComparesInFloat(const NodeContext& c) {
  if (ByteSize(c.Type(0).dtype) <= 2) return true;
  for (const size_t i : {0, 1}) {
    if (!c.In(i).known) continue;
    const std::vector<Element>& elements = c.In(i).known->elements;
    if (std::all_of(elements.begin(), elements.end(), [](const Element& e) {
          return e.integer.IsFixed() && e.per_index == 0 && e.integer.fixed > -kExact &&
                 e.integer.fixed < kExact;
        }))
      return true;
  }
  return false;
}

}  // namespace

const std::vector<ImportEntry>& IntegerImports() {
  static const std::vector<ImportEntry> entries = {
      {"Add", 2, 2, ImportOperation},
      {"Sub", 2, 2, ImportOperation},
      {"Mul", 2, 2, ImportOperation},
      {"Div", 2, 2, ImportOperation},
      {"Mod", 2, 2, ImportOperation},
      {"Max", 1, -1, ImportOperation},
      {"Min", 1, -1, ImportOperation},
      {"Neg", 1, 1, ImportOperation},
      {"Abs", 1, 1, ImportOperation},
      {"Sign", 1, 1, ImportOperation},
      {"BitwiseAnd", 2, 2, ImportOperation},
      {"BitwiseOr", 2, 2, ImportOperation},
      {"BitwiseXor", 2, 2, ImportOperation},
      {"BitwiseNot", 1, 1, ImportOperation},
      {"BitShift", 2, 2, ImportBitShift},
      {"Equal", 2, 2, ImportOperation},
      {"Greater", 2, 2, ImportOperation},
      {"Less", 2, 2, ImportOperation},
      {"LessOrEqual", 2, 2, ImportOperation},
      {"GreaterOrEqual", 2, 2, ImportOperation},
      {"Pow", 2, 2, ImportPow},
      {"Clip", 1, 3, ImportClip},
      {"Relu", 1, 1, ImportRelu},
      {"Where", 3, 3, ImportWhere},
      {"Cast", 1, 1, ImportCast},
      {"CastLike", 2, 2, ImportCast},
  };
  return entries;
}

const ImportEntry* FindIntegerImport(const NodeContext& c) {
  const std::string& op = c.node.op_type();
  const bool where = op == "Where";
  const size_t first = where ? 1 : 0;
  if (!IsStandardDomain(c.node.domain()) || !c.Has(first)) return nullptr;
  if (where ? IsFloat(c.Type(1).dtype) : !IsInteger(c.Type(0).dtype)) return nullptr;
  if (op == "Cast" || op == "CastLike") {
    const std::optional<DType> to = CastTarget(c);
    if (!to || !IsInteger(*to)) return nullptr;
  }
  if (IsComparison(op) && (!c.Has(1) || ComparesInFloat(c))) return nullptr;
  for (const ImportEntry& entry : IntegerImports())
    if (op == entry.op) return &entry;
  return nullptr;
}

}  // namespace act::onnx_import
