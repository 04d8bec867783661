#include "passes/recognize/match_attention.h"

#include <algorithm>

#include "passes/recognize/pattern.h"

namespace act {
namespace {

// A number that replaces a score hides the pair if it is at most this: e^-10000 is 0. A number that
// is added to a score must be larger in magnitude.
constexpr double kHidesInPlace = -1e4;

// A guard reads what it guards as both operands of a comparison, and as its result.
constexpr size_t kReadsOfGuarded = 3;

}  // namespace

bool KeepsMatrices(const Dims& a, const Dims& b) {
  return a.size() >= 2 && b.size() >= 2 && std::equal(a.end() - 2, a.end(), b.end() - 2);
}

Dims LeadingAxes(const Dims& dims) { return {dims.begin(), dims.end() - 2}; }

AttentionMatcher::AttentionMatcher(const Graph& graph, const std::vector<Node>& nodes)
    : graph_(graph), uses_(graph, nodes) {}

const Node* AttentionMatcher::OnlyUse(ValueId v, size_t reads) const {
  return uses_.Reads(v) == reads ? Maker(v) : nullptr;
}

std::optional<double> AttentionMatcher::Number(ValueId v) const {
  for (const Node* node = Maker(v); node; node = Maker(v)) {
    if (node->op != "Expand" && node->op != "Reshape") return std::nullopt;
    v = node->inputs[0];
  }
  return NumberIn(graph_.value(v));
}

ValueId AttentionMatcher::Unexpanded(ValueId v) const {
  for (const Node* node = Maker(v); node && (node->op == "Expand" || node->op == "Identity"); node = Maker(v))
    v = node->inputs[0];
  return v;
}

std::optional<std::pair<ValueId, double>> AttentionMatcher::Scaled(const Node& node) const {
  if (node.op == "Mul")
    for (size_t i : {size_t{0}, size_t{1}})
      if (const auto c = Number(node.inputs[i]); c && DimsOf(node.inputs[1 - i]) == DimsOf(node.outputs[0]))
        return std::pair{node.inputs[1 - i], *c};
  if (node.op == "Div")
    if (const auto c = Number(node.inputs[1]); c && DimsOf(node.inputs[0]) == DimsOf(node.outputs[0]))
      return std::pair{node.inputs[0], 1 / *c};
  return std::nullopt;
}

std::optional<AttentionMatch> AttentionMatcher::Match(const Node& node) const {
  return node.op == "Attention" ? MatchOperator(node) : MatchProduct(node);
}

std::optional<AttentionMatch> AttentionMatcher::MatchProduct(const Node& node) const {
  if (node.op != "MatMul" || node.attrs.Int("trans_a") != 0 || node.attrs.Int("trans_b") != 0)
    return std::nullopt;
  AttentionMatch m;
  ValueId at = node.inputs[0];
  m.v = node.inputs[1];
  size_t reads = 1;
  const Node* step = OnlyUse(at);
  for (; step && step->op != "Softmax"; step = OnlyUse(at, reads)) {
    reads = 1;
    if (const auto guarded = WithoutNaN(*step)) {
      m.zero_for_nan = true;
      at = *guarded;
      reads = kReadsOfGuarded;
      continue;
    }
    if (step->op == "Dropout" && m.dropout == 0) {
      m.dropout = step->attrs.Float("probability");
    } else if (step->op != "Identity" &&
               !(step->op == "Reshape" && KeepsMatrices(DimsOf(step->inputs[0]), DimsOf(at)))) {
      return std::nullopt;
    }
    at = step->inputs[0];
  }
  if (!step) return std::nullopt;
  const Dims& p = DimsOf(node.inputs[0]);
  const bool found = FindScores(step->inputs[0], 1, kDeepest, m) && FitsBatch(m) && DimsOf(m.v).size() >= 2 &&
                     LeadingAxes(DimsOf(m.v)) == LeadingAxes(p);
  if (!found) return std::nullopt;
  m.kv_lead = LeadingAxes(m.widest);
  return m;
}

std::optional<AttentionMatch> AttentionMatcher::MatchOperator(const Node& node) const {
  for (const char* moved : {"packed", "perm_q", "perm_k", "perm_v", "perm_o"})
    if (node.attrs.Has(moved)) return std::nullopt;
  const auto operand = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : kNoValue; };
  AttentionMatch m;
  m.q = operand(0);
  m.k_transposed = operand(1);
  m.v = operand(2);
  m.trans_k = true;
  m.scores = DimsOf(m.q);
  m.scores.back() = DimsOf(m.k_transposed).end()[-2];
  m.widest = m.scores;
  m.kv_lead = LeadingAxes(DimsOf(m.k_transposed));
  if (operand(3) != kNoValue) m.biases.push_back({.value = operand(3), .scores = m.scores});
  if (operand(4) != kNoValue) m.masks.push_back({.value = operand(4), .scores = m.scores});
  m.scale = node.attrs.Float("scale", 1);
  m.attrs = node.attrs;
  m.zero_for_nan = node.attrs.String("empty_row", "nan") == "zero";
  return m;
}

// IsNaN(p) is imported as `not (p = p)`.
std::optional<ValueId> AttentionMatcher::WithoutNaN(const Node& node) const {
  if (node.op != "Where") return std::nullopt;
  const Node* test = OnlyUse(node.inputs[0]);
  bool true_for_nan = false;
  for (; test && test->op == "Equal" && TypeOf(test->inputs[0]).dtype == DType::kBool &&
         Number(test->inputs[1]) == 0;
       test = OnlyUse(test->inputs[0]))
    true_for_nan = !true_for_nan;
  if (!test || test->op != "Equal" || test->inputs[0] != test->inputs[1]) return std::nullopt;
  const ValueId p = test->inputs[0];
  const ValueId for_nan = node.inputs[true_for_nan ? 1 : 2], for_number = node.inputs[true_for_nan ? 2 : 1];
  const bool guards = for_number == p && Number(for_nan) == 0 && uses_.Reads(p) == kReadsOfGuarded;
  return guards ? std::optional(p) : std::nullopt;
}

bool AttentionMatcher::FindScores(ValueId at, double factor, int depth, AttentionMatch& m) const {
  if (depth == 0) return false;
  if (DimsOf(at).size() > m.widest.size()) m.widest = DimsOf(at);
  const Node* node = OnlyUse(at);
  if (!node) return false;
  const auto& in = node->inputs;
  if (node->op == "MatMul") {
    m.q = in[0];
    m.k_transposed = in[1];
    m.trans_q = node->attrs.Int("trans_a") != 0;
    m.trans_k = node->attrs.Int("trans_b") != 0;
    m.scores = DimsOf(at);
    m.scale *= factor;
    return m.scores.size() >= 3;
  }
  if (node->op == "Identity" || (node->op == "Reshape" && KeepsMatrices(DimsOf(in[0]), DimsOf(at))))
    return FindScores(in[0], factor, depth - 1, m);
  if (const auto scaled = Scaled(*node)) {
    const Node* tanh = OnlyUse(scaled->first);
    if (!tanh || tanh->op != "Tanh") return FindScores(scaled->first, factor * scaled->second, depth - 1, m);
    // c tanh(x) is a cap of c, for scores that are c x
    m.softcap = factor * scaled->second;
    const size_t terms = m.biases.size() + m.masks.size();
    return m.softcap > 0 && FindScores(tanh->inputs[0], m.softcap, depth - 1, m) &&
           terms == m.biases.size() + m.masks.size();
  }
  if (node->op == "Add") {
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (DimsOf(in[i]) != DimsOf(at)) continue;
      AttentionMatch rest = m;
      rest.biases.push_back({.value = in[1 - i], .scores = DimsOf(at), .factor = factor});
      if (!FindScores(in[i], factor, depth - 1, rest)) continue;
      m = rest;
      return true;
    }
    return false;
  }
  if (node->op == "Where") {  // condition, result if true, result if false
    for (size_t i : {size_t{1}, size_t{2}}) {
      const auto number = Number(in[3 - i]);
      if (!number || !(*number * factor <= kHidesInPlace) || !m.masks.empty() ||
          DimsOf(in[i]) != DimsOf(at) || graph_.value(in[0]).type.dtype != DType::kBool)
        continue;
      m.masks.push_back({.value = in[0], .scores = DimsOf(at), .hides_where_true = i == 2});
      m.hidden_score = *number * factor;
      return FindScores(in[i], factor, depth - 1, m);
    }
  }
  return false;
}

bool AttentionMatcher::FitsBatch(const AttentionMatch& m) const {
  const Dims lead = LeadingAxes(m.scores);
  const auto leads = [&](ValueId v) {
    const Dims& dims = DimsOf(v);
    return dims.size() >= 2 && LeadingAxes(dims) == lead;
  };
  if (!leads(m.q) || !leads(m.k_transposed)) return false;
  for (const auto* terms : {&m.biases, &m.masks})
    for (const ScoreTerm& term : *terms)
      if (!Fitted(term, m)) return false;
  return true;
}

std::optional<Dims> AttentionMatcher::Fitted(const ScoreTerm& term, const AttentionMatch& m) const {
  Dims dims = DimsOf(term.value);
  while (!dims.empty() && dims.front() == Dim(1)) dims.erase(dims.begin());
  if (term.scores == m.widest) return dims;
  // Only trailing axes that both forms of the scores share.
  size_t shared = 0;
  while (shared < std::min(term.scores.size(), m.widest.size()) &&
         term.scores[term.scores.size() - 1 - shared] == m.widest[m.widest.size() - 1 - shared])
    ++shared;
  if (dims.size() > shared) return std::nullopt;
  return dims;
}

std::optional<ValueId> AttentionMatcher::Ungrouped(ValueId v, const Dims& lead) const {
  const Node* reshape = Maker(v);
  while (reshape && reshape->op == "Identity") reshape = Maker(reshape->inputs[0]);
  if (!reshape || reshape->op != "Reshape") return std::nullopt;
  const Node* expand = Maker(reshape->inputs[0]);
  while (expand && expand->op == "Identity") expand = Maker(expand->inputs[0]);
  if (!expand || expand->op != "Expand") return std::nullopt;
  Dims once = DimsOf(expand->inputs[0]), repeated = DimsOf(expand->outputs[0]);
  const size_t rank = lead.size() + 3;
  if (once.size() != rank || repeated.size() != rank || once[rank - 3] != Dim(1)) return std::nullopt;
  once[rank - 3] = repeated[rank - 3];  // the group
  if (once != repeated || !std::equal(lead.begin(), lead.end() - 1, once.begin()) ||
      once[rank - 4] * once[rank - 3] != lead.back())
    return std::nullopt;
  return expand->inputs[0];
}

}  // namespace act
