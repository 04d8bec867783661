// Turns activation functions that a model spells out into one operator, so
// that only one tensor is saved:
//   Gelu       x Phi(x), by erf, or by tanh or sigmoid of a cubic
//   Silu       x sigmoid(x)
//   HardSwish  x clip(x + 3, 0, 6) / 6, x HardSigmoid(x)
//   Sigmoid    1 / (1 + e^-x)
//   LogSigmoid ln(sigmoid(x)), which overflows where sigmoid(x) is 0, and ln(1 - sigmoid(x)), that of
//              -x, which overflows where sigmoid(x) is 1. TorchScript's exporter writes binary cross
//              entropy of logits as these two
//   SqrtOfSquares  sqrt(x) and x^.5 of sums and products of squares, as in a deviation: slope 0 at 0
//   Softplus   ln(1 + e^x), and with the linear branch for large x that exporters put around it
//   Mish       x tanh(softplus(x))
//   Softmax    e^x / sum(e^x), over the last axis
// A product is read as a polynomial of x and of the function inside (its gate), so the order and
// place of constants do not matter. A function that is only nearly one of these stays as it is.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "compiler/ir/rewrite_nodes.h"
#include "passes/pass.h"
#include "passes/recognize/pattern.h"
#include "runtime/base/dtype_kind.h"

namespace act {
namespace {

constexpr double kCubic = .044715;                              // of the form with tanh
const double kTanhSlope = std::sqrt(2 * std::numbers::inv_pi);  // sqrt(2 / pi)
constexpr double kErfSlope = std::numbers::sqrt2 / 2;           // 1 / sqrt(2)
// Above this, x and softplus(x) = x + ln(1 + e^-x) are the same float32: e^-x / x < 2^-24.
constexpr double kLinearFrom = 14;
constexpr int kDepth = 8;  // of sums and products of squares

// The two polynomials of a gated activation: that of the gate's operand in x, and that of the
// result in x and the gate.
struct Gated {
  const char* name;
  const char* approximate;  // attribute of Gelu
  Polynomial inner, result;
};

class Recognizer {
 public:
  explicit Recognizer(Graph& graph) : graph_(graph), pattern_(graph) {}

  llvm::Error Run() {
    for (Node& node : graph_.nodes) {
      if (node.outputs.size() != 1) continue;
      if (node.op == "Div" || node.op == "Reciprocal") Sigmoid(node);
      if (node.op == "Div") Softmax(node);
      if (node.op == "Log" || node.op == "Where") Softplus(node);
      if (node.op == "Sqrt" || node.op == "Pow") Length(node);
      if (node.op == "Erf" || node.op == "Tanh" || node.op == "Sigmoid" || node.op == "Clip" ||
          node.op == "HardSigmoid")
        Gate(node);
    }
    return LogsOfComplements();
  }

 private:
  void Become(Node& node, const char* op, ValueId x, Attributes attrs = {}) {
    node.op = op;
    node.inputs = {x};
    node.attrs = std::move(attrs);
  }

  // Returns x if v = 1 + e^x.
  ValueId OnePlusExpOf(ValueId v) {
    const Node* sum = pattern_.Maker(v, "Add");
    for (size_t i = 0; sum && i < 2; ++i) {
      const Node* exp = pattern_.Maker(sum->inputs[i], "Exp");
      if (exp && pattern_.Number(sum->inputs[1 - i]) == 1) return exp->inputs[0];
    }
    return kNoValue;
  }

  // 1 / (1 + Exp(Neg(x)))
  void Sigmoid(Node& node) {
    if (node.op == "Div" && pattern_.Number(node.inputs[0]) != 1) return;
    const ValueId negative = OnePlusExpOf(node.inputs.back());
    const Node* neg = negative == kNoValue ? nullptr : pattern_.Maker(negative, "Neg");
    if (neg && pattern_.DimsOf(neg->inputs[0]) == pattern_.DimsOf(node.outputs[0]))
      Become(node, "Sigmoid", neg->inputs[0]);
  }

  // The gradient of a quotient of these would be a small difference of large numbers.
  void Softmax(Node& node) {
    const Node* exp = pattern_.Maker(node.inputs[0], "Exp");
    const auto last = static_cast<int64_t>(pattern_.DimsOf(node.outputs[0]).size()) - 1;
    if (exp && AxisOfSums(node.inputs[1], node.inputs[0]) == last) Become(node, "Softmax", exp->inputs[0]);
  }

  // The axis of x along which v has its sums, as an axis of one element. An importer may have transposed x for them,
  // and transposed them back. -1: they are none.
  int64_t AxisOfSums(ValueId v, ValueId x) {
    const Node* back = pattern_.Maker(v, "Transpose");
    const Node* sum = pattern_.Maker(back ? back->inputs[0] : v, "ReduceSum");
    if (!sum || sum->attrs.Ints("axes").size() != 1 || sum->attrs.Int("keepdims", 1) == 0) return -1;
    const int64_t axis = sum->attrs.Ints("axes")[0];
    const Node* there = pattern_.Maker(sum->inputs[0], "Transpose");
    if (!back) return sum->inputs[0] == x ? axis : -1;
    if (!there || there->inputs[0] != x || !Undoes(*back, *there)) return -1;
    return there->attrs.Ints("perm")[static_cast<size_t>(axis)];
  }

  // Log(1 + Exp(x)); Where(x > t, x, Softplus(x))
  void Softplus(Node& node) {
    if (node.op == "Log") {
      if (const Node* sigmoid = pattern_.Maker(node.inputs[0], "Sigmoid"))
        return Become(node, "LogSigmoid", sigmoid->inputs[0]);
      Complement(node);
      const ValueId x = OnePlusExpOf(node.inputs[0]);
      if (x != kNoValue && pattern_.DimsOf(x) == pattern_.DimsOf(node.outputs[0]))
        Become(node, "Softplus", x);
      return;
    }
    const Node* large = pattern_.Maker(node.inputs[0], "Greater");
    const Node* softplus = pattern_.Maker(node.inputs[2], "Softplus");
    if (!large || !softplus || softplus->inputs[0] != node.inputs[1] || large->inputs[0] != node.inputs[1])
      return;
    const std::optional<double> from = pattern_.Number(large->inputs[1]);
    if (from && *from >= kLinearFrom && pattern_.DimsOf(node.inputs[1]) == pattern_.DimsOf(node.outputs[0]))
      Become(node, "Softplus", node.inputs[1]);
  }

  // The root alone has an infinite slope at 0, and squares have slope 0 there: the gradient would always
  // be NaN. In PyTorch that of a norm, a deviation or a cosine is 0.
  void Length(Node& node) {
    if (node.op == "Pow" && pattern_.Number(node.inputs[1]) != .5) return;
    if (pattern_.DimsOf(node.inputs[0]) == pattern_.DimsOf(node.outputs[0]) &&
        IsOfSquares(node.inputs[0], kDepth))
      Become(node, "SqrtOfSquares", node.inputs[0]);
  }

  // A positive number, or one that is made of integers, as of the number of samples.
  bool IsCount(ValueId v, int depth) {
    if (const std::optional<double> number = pattern_.Number(v)) return *number > 0;
    const Node* node = pattern_.Maker(v);
    if (!node || depth == 0) return false;
    if (node->op == "Cast") return IsInteger(graph_.value(node->inputs[0]).type.dtype);
    static const std::set<std::string> kArithmetic = {"Add", "Sub", "Mul", "Div", "Max", "Reshape", "Expand"};
    return kArithmetic.count(node->op) > 0 && std::all_of(node->inputs.begin(), node->inputs.end(),
                                                          [&](ValueId in) { return IsCount(in, depth - 1); });
  }

  // Is v at least 0, and its gradient 0 where v is 0?
  bool IsOfSquares(ValueId v, int depth) {
    const Node* node = pattern_.Maker(v);
    if (!node || depth == 0) return false;
    const auto of_squares = [&](size_t i) { return IsOfSquares(node->inputs[i], depth - 1); };
    static const std::set<std::string> kSums = {"ReduceSum", "ReduceMean", "Reshape", "Expand", "Transpose"};
    if (node->op == "Square" || (node->op == "Pow" && pattern_.Number(node->inputs[1]) == 2)) return true;
    if (kSums.count(node->op)) return of_squares(0);
    if (node->op == "Add") return of_squares(0) && of_squares(1);
    if (node->op == "Div") return of_squares(0) && IsCount(node->inputs[1], depth);
    if (node->op != "Mul") return false;
    const auto factor = [&](size_t i) { return IsCount(node->inputs[i], depth) || of_squares(i); };
    return node->inputs[0] == node->inputs[1] || (factor(0) && factor(1));
  }

  // Log(1 - Sigmoid(x))
  void Complement(const Node& log) {
    const Node* difference = pattern_.Maker(log.inputs[0], "Sub");
    if (!difference || pattern_.Number(difference->inputs[0]) != 1) return;
    const Node* sigmoid = pattern_.Maker(difference->inputs[1], "Sigmoid");
    if (sigmoid && pattern_.DimsOf(sigmoid->inputs[0]) == pattern_.DimsOf(log.outputs[0]))
      complements_[log.outputs[0]] = sigmoid->inputs[0];
  }

  llvm::Error LogsOfComplements() {
    GraphBuilder builder(graph_);
    return RewriteNodes(graph_, builder, "Log", [&](Node& node, const Uses&) -> llvm::Error {
      const auto found = complements_.find(node.outputs[0]);
      if (found == complements_.end()) return llvm::Error::success();
      ACT_TRY(const ValueId negative, builder.Add1("Neg", {found->second}, {}, node.name));
      Become(node, "LogSigmoid", negative);
      return llvm::Error::success();
    });
  }

  // The values that x may be, given the gate's operand: that operand itself, and the values it is
  // computed from.
  void Candidates(ValueId v, int depth, std::vector<ValueId>& found) {
    if (std::find(found.begin(), found.end(), v) != found.end() || pattern_.Number(v)) return;
    found.push_back(v);
    const Node* node = pattern_.Maker(v);
    if (!node || depth == 0) return;
    static const std::set<std::string> kArithmetic = {"Add", "Sub",    "Mul", "Div",
                                                      "Neg", "Square", "Pow", "Identity"};
    if (kArithmetic.count(node->op))
      for (ValueId operand : node->inputs) Candidates(operand, depth - 1, found);
  }

  std::vector<Gated> FormsOf(const Node& gate) const {
    const Polynomial same{{{1, 0}, 1}};
    const auto cubic = [](double slope) { return Polynomial{{{1, 0}, slope}, {{3, 0}, slope * kCubic}}; };
    const Polynomial product{{{1, 1}, 1}}, half_and_half{{{1, 0}, .5}, {{1, 1}, .5}};
    if (gate.op == "Erf") return {{"Gelu", "none", {{{1, 0}, kErfSlope}}, half_and_half}};
    if (gate.op == "Tanh") return {{"Gelu", "tanh", cubic(kTanhSlope), half_and_half}};
    if (gate.op == "Sigmoid")
      return {{"Silu", nullptr, same, product}, {"Gelu", "tanh", cubic(2 * kTanhSlope), product}};
    const auto attr = [&gate](const char* name, double fallback) { return gate.attrs.Float(name, fallback); };
    if (gate.op == "Clip" && attr("min", -1) == 0 && attr("max", 0) == 6)
      return {{"HardSwish", nullptr, {{{1, 0}, 1}, {{0, 0}, 3}}, {{{1, 1}, 1. / 6}}}};
    if (gate.op == "Clip" && attr("min", -1) == 0 && attr("max", 0) == 1)
      return {{"HardSwish", nullptr, {{{1, 0}, 1. / 6}, {{0, 0}, .5}}, product}};
    const bool sixth = std::fabs(attr("alpha", .2) * 6 - 1) < 1e-6 && attr("beta", .5) == .5;
    if (gate.op == "HardSigmoid" && sixth) return {{"HardSwish", nullptr, same, product}};
    return {};
  }

  // Follows the gate's result to the product that is a whole activation, as long as nothing else
  // reads it.
  void Gate(const Node& gate) {
    if (gate.op == "Tanh")
      if (const Node* softplus = pattern_.Maker(gate.inputs[0], "Softplus")) {
        const Polynomial product{{{1, 1}, 1}};
        if (Node* y = Product(gate.outputs[0], softplus->inputs[0], product))
          Become(*y, "Mish", softplus->inputs[0]);
        return;
      }
    const std::vector<Gated> forms = FormsOf(gate);
    if (forms.empty()) return;
    std::vector<ValueId> candidates;
    Candidates(gate.inputs[0], Pattern::kDegree, candidates);
    for (ValueId x : candidates) {
      const std::optional<Polynomial> inner = pattern_.PolynomialOf(gate.inputs[0], x);
      for (const Gated& form : forms) {
        if (!Matches(inner, form.inner)) continue;
        Node* y = Product(gate.outputs[0], x, form.result);
        if (!y) continue;
        Attributes attrs;
        if (form.approximate) attrs.Set("approximate", std::string(form.approximate));
        return Become(*y, form.name, x, attrs);
      }
    }
  }

  Node* Product(ValueId gate, ValueId x, const Polynomial& result) {
    ValueId v = gate;
    for (int steps = 0; steps < 2 * Pattern::kDegree; ++steps) {
      Node* reader = pattern_.OnlyReader(v);
      if (!reader || reader->outputs.size() != 1) return nullptr;
      v = reader->outputs[0];
      const std::optional<Polynomial> whole = pattern_.PolynomialOf(v, x, gate);
      if (!whole) return nullptr;
      if (Matches(whole, result)) return reader;
    }
    return nullptr;
  }

  Graph& graph_;
  Pattern pattern_;
  std::map<ValueId, ValueId> complements_;  // by each ln(1 - sigmoid(x)), the x
};

}  // namespace

llvm::Error RecognizeActivations(Graph& graph, PassContext&) { return Recognizer(graph).Run(); }

}  // namespace act
