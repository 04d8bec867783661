#include "passes/recognize/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/ops/op_table.h"

namespace act {
namespace {

// Two roundings of 2^-24 each: that of the number itself, and that of a
// number by which it was multiplied.
constexpr double kSame = 3e-7;

using MaybePolynomial = std::optional<Polynomial>;

MaybePolynomial Plus(const MaybePolynomial& a, const MaybePolynomial& b, double sign) {
  if (!a || !b) return std::nullopt;
  Polynomial sum = *a;
  for (const auto& [powers, c] : *b) sum[powers] += sign * c;
  return sum;
}

MaybePolynomial Times(const MaybePolynomial& a, const MaybePolynomial& b) {
  if (!a || !b) return std::nullopt;
  Polynomial product;
  for (const auto& [p, c] : *a)
    for (const auto& [q, d] : *b) {
      const std::pair<int, int> powers{p.first + q.first, p.second + q.second};
      if (powers.first + powers.second > Pattern::kDegree) return std::nullopt;
      product[powers] += c * d;
    }
  return product;
}

}  // namespace

std::optional<float> NumberIn(const Value& value) {
  constexpr int64_t kBytes = sizeof(float);
  const std::byte* const data = value.data.data;
  const int64_t bytes = value.data.bytes;
  if (value.kind != ValueKind::kConstant || value.type.dtype != DType::kFloat32 || !data || bytes < kBytes)
    return std::nullopt;
  if (!std::equal(data, data + bytes - kBytes, data + kBytes)) return std::nullopt;
  float number;
  std::memcpy(&number, data, sizeof number);
  return number;
}

Pattern::Pattern(Graph& graph) : graph_(graph), uses_(graph) {}

Node* Pattern::NodeAt(int64_t position) {
  return position < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(position)];
}

Node* Pattern::Maker(ValueId v) { return NodeAt(uses_.Producer(v)); }

Node* Pattern::Maker(ValueId v, const char* op) {
  Node* node = Maker(v);
  return node && node->op == op ? node : nullptr;
}

Node* Pattern::OnlyReader(ValueId v) { return NodeAt(uses_.OnlyReader(v)); }

std::optional<double> Pattern::Number(ValueId v) {
  const Node* node = Maker(v);
  if (!node) return NumberIn(graph_.value(v));
  const Movement movement = OpOf(*node).movement;
  const bool repeats = movement == Movement::kRepeat || movement == Movement::kReshape;
  return repeats ? Number(node->inputs[0]) : std::nullopt;
}

bool Pattern::IsWeight(ValueId v) {
  if (const Node* node = Maker(v)) {
    const Movement movement = OpOf(*node).movement;
    const bool moves_all =
        movement == Movement::kReshape || movement == Movement::kRepeat || movement == Movement::kTranspose;
    return moves_all && IsWeight(node->inputs[0]);
  }
  const ValueKind kind = graph_.value(v).kind;
  return kind == ValueKind::kParameter || kind == ValueKind::kBuffer || kind == ValueKind::kConstant;
}

std::optional<Polynomial> Pattern::PolynomialOf(ValueId v, ValueId x, ValueId y, int depth) {
  if (v == x) return Polynomial{{{1, 0}, 1}};
  if (v == y) return Polynomial{{{0, 1}, 1}};
  if (const std::optional<double> number = Number(v)) return Polynomial{{{0, 0}, *number}};
  const Node* node = Maker(v);
  // A broadcast value is not the same polynomial in each element.
  if (!node || depth == 0 || node->outputs.size() != 1 || DimsOf(v) != DimsOf(x)) return std::nullopt;
  const auto operand = [&](size_t i) { return PolynomialOf(node->inputs[i], x, y, depth - 1); };
  switch (OpOf(*node).arithmetic) {
    case Arithmetic::kCopy:
      return operand(0);
    case Arithmetic::kNegative:
      return Plus(Polynomial{}, operand(0), -1);
    case Arithmetic::kSum:
      return Plus(operand(0), operand(1), 1);
    case Arithmetic::kDifference:
      return Plus(operand(0), operand(1), -1);
    case Arithmetic::kProduct:
      return Times(operand(0), operand(1));
    case Arithmetic::kOther:
      break;
  }
  if (node->op == "Square") return Times(operand(0), operand(0));
  if (node->op == "Pow" && Number(node->inputs[1]) == 3)
    return Times(operand(0), Times(operand(0), operand(0)));
  if (node->op == "Div") {
    const std::optional<double> divisor = Number(node->inputs[1]);
    if (divisor && *divisor != 0) return Times(operand(0), Polynomial{{{0, 0}, 1 / *divisor}});
  }
  return std::nullopt;
}

bool Undoes(const Node& second, const Node& first) {
  const std::vector<int64_t> to = first.attrs.Ints("perm"), from = second.attrs.Ints("perm");
  for (size_t i = 0; i < from.size(); ++i)
    if (to[static_cast<size_t>(from[i])] != static_cast<int64_t>(i)) return false;
  return true;
}

bool Matches(const std::optional<Polynomial>& p, const Polynomial& expected) {
  if (!p) return false;
  for (const auto& [powers, c] : expected) {
    const auto it = p->find(powers);
    if (it == p->end() || std::fabs(it->second - c) > kSame * std::fabs(c)) return false;
  }
  for (const auto& [powers, c] : *p)
    if (c != 0 && expected.count(powers) == 0) return false;
  return true;
}

}  // namespace act
