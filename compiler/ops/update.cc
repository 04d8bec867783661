// Optimizer updates: elementwise expressions that write parameters and optimizer state in place.
// docs/optimizers.md names the sources.
#include "compiler/ops/update.h"

#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "runtime/plan/optimizer.h"
#include "runtime/plan/row_update.h"

namespace act {
namespace {

using B = ExprBuilder;

Reg Sqrt(B& b, Reg x) { return b.Unary(Opcode::kSqrt, x); }

// g + weight_decay p
Reg Decayed(B& b, Reg p, Reg g, Reg weight_decay) { return b.Fma(weight_decay, p, g); }

// Running means of the gradient and of its square.
struct Moments {
  Reg first, second;
};
Moments NextMoments(B& b, Reg g, Reg m, Reg v, Reg one_minus_beta1, Reg beta2, Reg one_minus_beta2) {
  return {b.Fma(one_minus_beta1, b.Sub(g, m), m), b.Fma(beta2, v, b.Mul(one_minus_beta2, b.Mul(g, g)))};
}
// sqrt(v / bias correction) + eps
Reg Denominator(B& b, Reg v, Reg rsqrt_bias2, Reg eps) { return b.Fma(rsqrt_bias2, Sqrt(b, v), eps); }

Reg AdamStep(B& b, Reg p, const Moments& next, Reg lr_over_bias1, Reg rsqrt_bias2, Reg eps) {
  return b.Sub(p, b.Div(b.Mul(lr_over_bias1, next.first), Denominator(b, next.second, rsqrt_bias2, eps)));
}

struct Row {
  const char* optimizer;
  UpdateRule rule;
  // r: the node's operands. Results: the new parameter (or the direction), then the new state.
  Regs (*expr)(B& b, const Regs& r);
};

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"sgd",
       {"SgdUpdate",
        {"velocity"},
        {"lr", "momentum", "weight_decay", "velocity_part", "gradient_part"},
        "QuantizedMomentum"},
       [](B& b, const Regs& r) -> Regs {
         const auto [p, velocity, lr, momentum] = std::tuple(r[0], r[2], r[3], r[4]);
         const Reg g = Decayed(b, p, r[1], r[5]);
         const Reg v = b.Fma(momentum, velocity, g);
         const Reg step = b.Fma(r[6], v, b.Mul(r[7], g));
         return {b.Sub(p, b.Mul(lr, step)), v};
       }},
      {"plain-sgd",
       {.op = "PlainSgdUpdate", .state = {}, .scalars = {"lr", "weight_decay"}, .sparse = true},
       [](B& b, const Regs& r) -> Regs { return {b.Sub(r[0], b.Mul(r[2], Decayed(b, r[0], r[1], r[3])))}; }},
      // The velocity takes a fraction of the gradient. With the fraction 1 this is SgdUpdate.
      {"onnx-momentum",
       {"OnnxMomentumUpdate",
        {"velocity"},
        {"lr", "momentum", "weight_decay", "velocity_part", "gradient_part", "gradient_weight"}},
       [](B& b, const Regs& r) -> Regs {
         const Reg g = Decayed(b, r[0], r[1], r[5]);
         const Reg v = b.Fma(r[4], r[2], b.Mul(r[8], g));
         const Reg step = b.Fma(r[6], v, b.Mul(r[7], g));
         return {b.Sub(r[0], b.Mul(r[3], step)), v};
       }},
      {"adam",
       {"AdamUpdate",
        {"exp_avg", "exp_avg_sq"},
        {"lr_over_bias1", "one_minus_beta1", "beta2", "one_minus_beta2", "rsqrt_bias2", "eps",
         "weight_decay"},
        "QuantizedAdam"},
       [](B& b, const Regs& r) -> Regs {
         const Reg g = Decayed(b, r[0], r[1], r[10]);
         const Moments next = NextMoments(b, g, r[2], r[3], r[5], r[6], r[7]);
         return {AdamStep(b, r[0], next, r[4], r[8], r[9]), next.first, next.second};
       }},
      {"adamw",
       {"AdamWUpdate",
        {"exp_avg", "exp_avg_sq"},
        {"lr_over_bias1", "one_minus_beta1", "beta2", "one_minus_beta2", "rsqrt_bias2", "eps", "decay"},
        "QuantizedAdam",
        /*makes_direction=*/false,
        /*decoupled=*/true},
       [](B& b, const Regs& r) -> Regs {
         const Moments next = NextMoments(b, r[1], r[2], r[3], r[5], r[6], r[7]);
         return {AdamStep(b, b.Mul(r[10], r[0]), next, r[4], r[8], r[9]), next.first, next.second};
       }},
      {"ort-adamw",
       {"OrtAdamWUpdate",
        {"exp_avg", "exp_avg_sq"},
        {"corrected_lr", "one_minus_beta1", "beta2", "one_minus_beta2", "eps", "decay"}},
       [](B& b, const Regs& r) -> Regs {
         const Moments next = NextMoments(b, r[1], r[2], r[3], r[5], r[6], r[7]);
         const Reg step = b.Div(b.Mul(r[4], next.first), b.Add(Sqrt(b, next.second), r[8]));
         return {b.Mul(r[9], b.Sub(r[0], step)), next.first, next.second};
       }},
      {"onnx-adam",
       {"OnnxAdamUpdate",
        {"exp_avg", "exp_avg_sq"},
        {"onnx_adam_lr", "one_minus_beta1", "beta2", "one_minus_beta2", "eps", "weight_decay", "post_decay"}},
       [](B& b, const Regs& r) -> Regs {
         const Reg g = Decayed(b, r[0], r[1], r[9]);
         const Moments next = NextMoments(b, g, r[2], r[3], r[5], r[6], r[7]);
         const Reg step = b.Div(b.Mul(r[4], next.first), b.Add(Sqrt(b, next.second), r[8]));
         return {b.Mul(r[10], b.Sub(r[0], step)), next.first, next.second};
       }},
      {"adagrad",
       {"AdagradUpdate", {"sum"}, {"decayed_lr", "eps", "weight_decay"}},
       [](B& b, const Regs& r) -> Regs {
         const Reg g = Decayed(b, r[0], r[1], r[5]);
         const Reg sum = b.Fma(g, g, r[2]);
         return {b.Sub(r[0], b.Div(b.Mul(r[3], g), b.Add(Sqrt(b, sum), r[4]))), sum};
       }},
      {"lamb",
       {"LambDirection",
        {"exp_avg", "exp_avg_sq"},
        {"inverse_bias1", "one_minus_beta1", "beta2", "one_minus_beta2", "rsqrt_bias2", "eps",
         "weight_decay"},
        "QuantizedLamb",
        /*makes_direction=*/true},
       [](B& b, const Regs& r) -> Regs {
         const Moments next = NextMoments(b, r[1], r[2], r[3], r[5], r[6], r[7]);
         const Reg adam = b.Div(b.Mul(r[4], next.first), Denominator(b, next.second, r[8], r[9]));
         return {b.Fma(r[10], r[0], adam), next.first, next.second};
       }},
      // p -= lr |p| / |u| u, with operands p, u, lr, |p|^2, |u|^2. If a norm is 0, the direction
      // keeps its own length.
      {"",
       {"LambStep", {}, {"lr", "", ""}},
       [](B& b, const Regs& r) -> Regs {
         const Reg both = b.Mul(b.Greater(r[3], b.Const(0)), b.Greater(r[4], b.Const(0)));
         const Reg ratio = b.Select(both, b.Div(Sqrt(b, r[3]), Sqrt(b, r[4])), b.Const(1));
         return {b.Sub(r[0], b.Mul(b.Mul(r[2], ratio), r[1]))};
       }},
      // The sum starts anew after each update.
      {"",
       {"AccumulateGradient", {}, {"keep_sum", "sum_weight"}},
       [](B& b, const Regs& r) -> Regs { return {b.Fma(r[3], r[1], b.Select(r[2], r[0], b.Const(0)))}; }},
  };
  return rows;
}

const Row& RowOf(const std::string& op) {
  for (const Row& row : Rows())
    if (row.rule.op == op) return row;
  return Rows().front();  // not reached: the operators below are made from the rows
}

size_t Operands(const UpdateRule& rule) { return 2 + rule.state.size() + rule.scalars.size(); }

llvm::Error InferUpdate(InferContext& c) {
  const UpdateRule& rule = RowOf(c.node.op).rule;
  const size_t tensors = 2 + rule.state.size();
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const TensorType expected = i < tensors ? c.in(0) : TensorType{DType::kFloat32, {}};
    if (!c.Has(i) || c.in(i) != expected || c.in(0).dtype != DType::kFloat32)
      return c.Fail("operand " + std::to_string(i) + " must be " + ToString(expected) + ", is " +
                    (c.Has(i) ? ToString(c.in(i)) : "left out"));
  }
  if (rule.makes_direction) c.outputs[0] = c.in(0);
  return llvm::Error::success();
}

Regs UpdateExpr(ExprBuilder& b, const Node& node, const Regs& operands) {
  const Row& row = RowOf(node.op);
  Regs r = operands;
  // The last operand is the clipping factor, if there is one.
  if (r.size() > Operands(row.rule)) r[1] = b.Mul(r.back(), r[1]);
  return row.expr(b, r);
}

const UpdateRule& RuleOfQuantized(const std::string& op) {
  for (const Row& row : Rows())
    if (row.rule.quantized == op) return row.rule;
  return Rows().front().rule;  // not reached: the operators below are made from the rows
}

// Gradient, the rule's scalars, clipping factor, parameter. Then each state: in bfloat16, or as codes and
// maxima. Checks operands `first` to `operands` - 1.
llvm::Error InferQuantizedFrom(InferContext& c, const UpdateRule& rule, size_t first, size_t operands) {
  const size_t parameter = rule.scalars.size() + 2, states = rule.state.size();
  if (operands != parameter + 1 + states && operands != parameter + 1 + 2 * states)
    return c.Fail("has " + std::to_string(operands) + " operands");
  for (size_t i = 0; i < operands; ++i)
    if (!c.Has(i)) return c.Fail("operand " + std::to_string(i) + " is left out");
  const bool coded = operands > parameter + 1 + states;
  const TensorType &whole = c.in(parameter), scalar = {DType::kFloat32, {}};
  for (size_t i = first; i < operands; ++i) {
    const bool maximum = coded && i > parameter && (i - parameter) % 2 == 0;
    TensorType expected = maximum ? c.in(operands - 1) : i == 0 || i >= parameter ? whole : scalar;
    if (i > parameter && !maximum && coded) expected.dtype = DType::kUint8;
    // A verifier's rules may see bfloat16 as float32.
    if (i > parameter && !coded && c.in(i).dtype == DType::kBFloat16) expected.dtype = DType::kBFloat16;
    if (c.in(i) != expected)
      return c.Fail("operand " + std::to_string(i) + " must be " + ToString(expected) + ", is " +
                    ToString(c.in(i)));
  }
  if (rule.makes_direction) c.outputs[0] = whole;
  return llvm::Error::success();
}

llvm::Error InferQuantized(InferContext& c) {
  return InferQuantizedFrom(c, RuleOfQuantized(c.node.op), 0, c.inputs.size());
}

// The operands of the update, whose gradient is that of rows, and then the rows' index. CheckPlan knows the rules of
// the rows.
llvm::Error InferQuantizedRows(InferContext& c) {
  const auto at = RowUpdateOf(c.node);
  if (!at) return c.Fail("does not say which of its operands are a table, rows and their index");
  constexpr std::string_view kRows = "Rows";
  const std::string& op = c.node.op;
  return InferQuantizedFrom(c, RuleOfQuantized(op.substr(0, op.size() - kRows.size())), 1, at->index);
}

Dim UpdateFlops(const Node& node, const Graph& graph) {
  constexpr int64_t kAboutAnElement = 10;
  return graph.value(node.inputs[0]).type.Elements() * Dim(kAboutAnElement);
}

Dim RowUpdateFlops(const Node& node, const Graph& graph) {
  constexpr int64_t kAboutAnElement = 10;
  const auto at = RowUpdateOf(node);
  return at ? graph.value(node.inputs[at->table]).type.Elements() * Dim(kAboutAnElement) : Dim(0);
}

// One operator for all rules that name it.
void AddQuantizedOps(std::vector<OpDef>& ops) {
  for (const Row& row : Rows()) {
    const UpdateRule& rule = row.rule;
    if (rule.quantized.empty() || &RuleOfQuantized(rule.quantized) != &rule) continue;
    OpDef def{.name = rule.quantized, .infer = InferQuantized, .flops = UpdateFlops};
    const int parameter = static_cast<int>(rule.scalars.size()) + 2;
    const int operands = parameter + 1 + 2 * static_cast<int>(rule.state.size());
    for (int i = parameter + (rule.makes_direction ? 1 : 0); i < operands; ++i) def.mutates.push_back(i);
    if (rule.makes_direction)
      def.in_place = {{0, 0}};
    else
      ops.push_back({.name = rule.quantized + "Rows",
                     .infer = InferQuantizedRows,
                     .flops = RowUpdateFlops,
                     .mutates = def.mutates});
    ops.push_back(std::move(def));
  }
}

llvm::Error InferScalar(InferContext& c) {
  const std::string name = c.node.attrs.String("name");
  if (!FindStepScalar(name)) return c.Fail("a step has no number '" + name + "'");
  c.outputs[0] = {DType::kFloat32, {}};
  return llvm::Error::success();
}

}  // namespace

const UpdateRule* FindUpdateRule(const std::string& optimizer) {
  for (const Row& row : Rows())
    if (row.optimizer == optimizer && !optimizer.empty()) return &row.rule;
  return nullptr;
}

std::string OptimizersOfQuantizedState() {
  std::vector<std::string> names;
  for (const Row& row : Rows())
    if (!row.rule.quantized.empty()) names.push_back(row.optimizer);
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

const UpdateRule& AccumulateRule() { return RowOf("AccumulateGradient").rule; }
const UpdateRule& LambStepRule() { return RowOf("LambStep").rule; }

void AddUpdateOps(std::vector<OpDef>& ops) {
  for (const Row& row : Rows()) {
    const int operands = static_cast<int>(Operands(row.rule));
    OpDef def{.name = row.rule.op,
              .operands = {operands, operands + 1},
              .infer = InferUpdate,
              .exprs = UpdateExpr,
              .flops = UpdateFlops};
    if (!row.rule.makes_direction) def.mutates.push_back(0);
    for (size_t i = 0; i < row.rule.state.size(); ++i) def.mutates.push_back(static_cast<int>(i) + 2);
    ops.push_back(std::move(def));
  }
  ops.push_back({.name = "StepScalar", .infer = InferScalar});
  AddQuantizedOps(ops);
}

}  // namespace act
