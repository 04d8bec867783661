// Attention as exporters write it becomes one operator:
//   scores = MatMul(q, k^T), scaled on either operand or behind; a soft cap; masks and biases; Softmax;
//   Dropout; MatMul with v.
// Reshapes of the axes before the last two may stand anywhere between (windowed attention adds its mask
// behind one), and heads of k and v that are repeated for groups of queries are not. Reads transposes as they
// are: cancel-transposes folds those of heads into the operator.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/ir/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// A number added to scores that hides a pair: below any score's reach, so that what it was added to is lost.
constexpr double kHides = -1e12;
// Put in a score's place it may be less: e^-10000 is 0 all the same.
constexpr double kHidesInPlace = -1e4;
// Nodes in a row that the search follows: models have ten; an endless chain must not exhaust the stack.
constexpr int kDeepest = 64;

Dims Leading(const Dims& dims) { return {dims.begin(), dims.end() - 2}; }
Dims WithMatrix(Dims leading, const Dims& matrix_of) {
  leading.insert(leading.end(), matrix_of.end() - 2, matrix_of.end());
  return leading;
}

class Recognizer {
 public:
  explicit Recognizer(Graph& graph) : graph_(graph), builder_(graph) {}

  llvm::Error Run(PassContext& context) {
    Index();
    old_ = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : old_) {
      for (ValueId& v : node.inputs) v = Current(v);
      Match match;
      if (node.op == "MatMul" && FindAttention(node, match)) {
        ACT_TRY(const ValueId y, Build(node, match));
        replacement_[static_cast<size_t>(node.outputs[0])] = y;
      } else {
        graph_.nodes.push_back(node);
      }
    }
    for (ValueId& v : graph_.outputs) v = Current(v);
    context.loss = Current(context.loss);
    return llvm::Error::success();
  }

 private:
  struct Term {  // added to the scores, or a mask of them, where they have these dims
    ValueId value;
    Dims scores;
    double factor = 1;  // of an added term
  };
  struct Match {
    ValueId q = kNoValue, k_transposed = kNoValue, v = kNoValue;
    bool trans_q = false, trans_k = false;  // of the product of scores
    Dims scores;                            // dims of that product
    std::vector<Term> biases, masks;
    Dims widest;  // of all dims that scores take on, those with the most axes
    double scale = 1, softcap = 0, dropout = 0, hidden_score = -std::numeric_limits<double>::infinity();
    bool hidden_gradient = false;
    bool mask_hides_where_true = false;
  };

  void Index() {
    producer_.assign(graph_.values.size(), -1);
    readers_.assign(graph_.values.size(), 0);
    replacement_.resize(graph_.values.size());
    for (size_t v = 0; v < replacement_.size(); ++v) replacement_[v] = static_cast<ValueId>(v);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (ValueId v : graph_.nodes[i].outputs) producer_[static_cast<size_t>(v)] = static_cast<int64_t>(i);
      for (ValueId v : graph_.nodes[i].inputs)
        if (v != kNoValue) ++readers_[static_cast<size_t>(v)];
    }
    for (ValueId v : graph_.outputs) ++readers_[static_cast<size_t>(v)];
  }

  ValueId Current(ValueId v) const {
    return v == kNoValue || static_cast<size_t>(v) >= replacement_.size()
               ? v
               : replacement_[static_cast<size_t>(v)];
  }
  // The model's node that makes v; null for what is no activation of the model.
  const Node* Maker(ValueId v) const {
    if (v == kNoValue || static_cast<size_t>(v) >= producer_.size()) return nullptr;
    const int64_t p = producer_[static_cast<size_t>(v)];
    return p < 0 ? nullptr : &old_[static_cast<size_t>(p)];
  }
  // The same where nothing else reads v: what is taken into the operator.
  const Node* OnlyUse(ValueId v) const {
    return static_cast<size_t>(v) < readers_.size() && readers_[static_cast<size_t>(v)] == 1 ? Maker(v)
                                                                                             : nullptr;
  }
  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }

  // The number that all elements of a constant are.
  std::optional<double> Number(ValueId v) const {
    for (const Node* node = Maker(v); node; node = Maker(v)) {
      if (node->op != "Expand" && node->op != "Reshape") return std::nullopt;
      v = node->inputs[0];
    }
    const Value& value = graph_.value(v);
    if (value.kind != ValueKind::kConstant || value.type.dtype != DType::kFloat32 || value.data.bytes < 4 ||
        !value.data.data)
      return std::nullopt;
    float first;
    std::memcpy(&first, value.data.data, sizeof first);
    for (int64_t at = 0; at + 4 <= value.data.bytes; at += 4)
      if (std::memcmp(value.data.data + at, &first, sizeof first) != 0) return std::nullopt;
    return first;
  }

  // x and c where the node is x * c or x / c, with c a number.
  std::optional<std::pair<ValueId, double>> Scaled(const Node& node) const {
    if (node.op == "Mul")
      for (size_t i : {size_t{0}, size_t{1}})
        if (const auto c = Number(node.inputs[i]); c && DimsOf(node.inputs[1 - i]) == DimsOf(node.outputs[0]))
          return std::pair{node.inputs[1 - i], *c};
    if (node.op == "Div")
      if (const auto c = Number(node.inputs[1]); c && DimsOf(node.inputs[0]) == DimsOf(node.outputs[0]))
        return std::pair{node.inputs[0], 1 / *c};
    return std::nullopt;
  }

  static bool KeepsMatrices(const Dims& a, const Dims& b) {
    return a.size() >= 2 && b.size() >= 2 && std::equal(a.end() - 2, a.end(), b.end() - 2);
  }

  // node: the product with v. Walks back from the probabilities to the product of q and k.
  bool FindAttention(const Node& node, Match& m) const {
    if (node.attrs.Int("trans_a") != 0 || node.attrs.Int("trans_b") != 0) return false;
    ValueId at = node.inputs[0];
    m.v = node.inputs[1];
    const Node* step = OnlyUse(at);
    for (; step && step->op != "Softmax"; step = OnlyUse(at)) {
      if (step->op == "Dropout" && m.dropout == 0) {
        m.dropout = step->attrs.Float("probability");
      } else if (step->op != "Identity" &&
                 !(step->op == "Reshape" && KeepsMatrices(DimsOf(step->inputs[0]), DimsOf(at)))) {
        return false;
      }
      at = step->inputs[0];
    }
    if (!step) return false;
    const Dims& p = DimsOf(node.inputs[0]);
    return FindScores(step->inputs[0], 1, kDeepest, m) && FitsBatch(m) && DimsOf(m.v).size() >= 2 &&
           Leading(DimsOf(m.v)) == Leading(p);
  }

  // The scores at `at`, which what follows multiplies by `factor`.
  bool FindScores(ValueId at, double factor, int depth, Match& m) const {
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
      if (!tanh || tanh->op != "Tanh")
        return FindScores(scaled->first, factor * scaled->second, depth - 1, m);
      // c tanh(x): a cap of c, of scores that are c x
      m.softcap = factor * scaled->second;
      const size_t terms = m.biases.size() + m.masks.size();
      return m.softcap > 0 && FindScores(tanh->inputs[0], m.softcap, depth - 1, m) &&
             terms == m.biases.size() + m.masks.size();
    }
    if (node->op == "Add") {
      for (size_t i : {size_t{0}, size_t{1}}) {
        if (DimsOf(in[i]) != DimsOf(at)) continue;
        Match rest = m;
        rest.biases.push_back({in[1 - i], DimsOf(at), factor});
        if (!FindScores(in[i], factor, depth - 1, rest)) continue;
        m = rest;
        return true;
      }
      return false;
    }
    if (node->op == "Where") {  // condition, where true, where false
      for (size_t i : {size_t{1}, size_t{2}}) {
        const auto number = Number(in[3 - i]);
        if (!number || !(*number * factor <= kHidesInPlace) || !m.masks.empty() ||
            DimsOf(in[i]) != DimsOf(at) || graph_.value(in[0]).type.dtype != DType::kBool)
          continue;
        m.masks.push_back({in[0], DimsOf(at)});
        m.mask_hides_where_true = i == 2;
        m.hidden_score = *number * factor;
        return FindScores(in[i], factor, depth - 1, m);
      }
    }
    return false;
  }

  // Do q and k have the scores' leading axes (a product that broadcasts is none of attention), and can each
  // term broadcast to the widest of their forms?
  bool FitsBatch(const Match& m) const {
    const Dims lead = Leading(m.scores);
    const auto leads = [&](ValueId v) {
      const Dims& dims = DimsOf(v);
      return dims.size() >= 2 && Leading(dims) == lead;
    };
    if (!leads(m.q) || !leads(m.k_transposed)) return false;
    for (const auto* terms : {&m.biases, &m.masks})
      for (const Term& term : *terms)
        if (!Fitted(term, m)) return false;
    return true;
  }

  // The term's dims behind its leading axes of extent 1, where it broadcasts to the widest scores by them.
  std::optional<Dims> Fitted(const Term& term, const Match& m) const {
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

  // The same tensor without a scale behind reshapes and transposes, which it multiplies into `scale`.
  llvm::Expected<ValueId> Unscaled(ValueId v, double& scale, int depth = kDeepest) {
    const Node* node = Maker(v);
    if (!node || depth == 0) return v;
    if (const auto scaled = Scaled(*node)) {
      scale *= scaled->second;
      return Unscaled(scaled->first, scale, depth - 1);
    }
    if (node->op != "Reshape" && node->op != "Transpose") return v;
    ACT_TRY(const ValueId inner, Unscaled(node->inputs[0], scale, depth - 1));
    if (inner == node->inputs[0]) return v;
    return builder_.AddTyped(node->op, {inner}, graph_.value(v).type, node->attrs, node->name);
  }

  llvm::Expected<ValueId> SwapLastTwo(ValueId v, const std::string& name) {
    std::vector<int64_t> perm(DimsOf(v).size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[perm.size() - 2], perm.back());
    const Node* node = Maker(v);
    if (node && node->op == "Transpose" && node->attrs.Ints("perm") == perm) return node->inputs[0];
    return builder_.Transpose(v, perm, name);
  }

  // [B.., H, T, D] that repeats each head of [B.., Hkv, T, D] for a group of queries: the latter.
  std::optional<ValueId> Ungrouped(ValueId v, const Dims& lead) const {
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

  llvm::Expected<ValueId> Build(const Node& node, Match& m) {
    const std::string& name = node.name;
    ACT_TRY(ValueId q, Unscaled(m.q, m.scale));
    if (m.trans_q) {
      ACT_TRY(q, SwapLastTwo(q, name));
    }
    ACT_TRY(ValueId k, Unscaled(m.k_transposed, m.scale));
    if (!m.trans_k) {
      ACT_TRY(k, SwapLastTwo(k, name));
    }
    ValueId v = m.v;
    const Dims lead = Leading(m.widest);
    ACT_TRY(q, builder_.Reshape(q, WithMatrix(lead, DimsOf(q)), name));
    Dims kv_lead = lead;
    if (const auto k_once = Ungrouped(k, lead), v_once = Ungrouped(v, lead); k_once && v_once) {
      kv_lead.back() = DimsOf(*k_once)[lead.size() - 1];
      if (DimsOf(*v_once)[lead.size() - 1] == kv_lead.back()) {
        k = *k_once;
        v = *v_once;
      } else {
        kv_lead = lead;
      }
    }
    ACT_TRY(k, builder_.Reshape(k, WithMatrix(kv_lead, DimsOf(k)), name));
    ACT_TRY(v, builder_.Reshape(v, WithMatrix(kv_lead, DimsOf(v)), name));

    Attributes attrs;
    ACT_TRY(const ValueId mask, Mask(m, attrs, name));
    ACT_TRY(const ValueId bias, Bias(m, name));
    attrs.Set("scale", m.scale);
    if (m.softcap > 0) attrs.Set("softcap", m.softcap);
    if (m.dropout > 0) attrs.Set("probability", m.dropout);
    std::vector<ValueId> inputs{q, k, v};
    if (bias != kNoValue || mask != kNoValue) inputs.push_back(bias);
    if (mask != kNoValue) inputs.push_back(mask);
    ACT_TRY(const ValueId o, builder_.Add1("Attention", inputs, attrs, name));
    return builder_.Reshape(o, DimsOf(node.outputs[0]), name);
  }

  // The pairs that take part, as a bool operand, or as the attribute `causal`.
  llvm::Expected<ValueId> Mask(Match& m, Attributes& attrs, const std::string& name) {
    for (size_t i = 0; i < m.biases.size() && m.masks.empty(); ++i) TakeMask(m, i);
    if (m.masks.empty()) return kNoValue;
    // The softmax of equal finite scores is their mean, of -infinities NaN.
    if (std::isfinite(m.hidden_score)) attrs.Set("empty_row", std::string("mean"));
    if (m.hidden_gradient) attrs.Set("hidden_gradient", int64_t{1});
    const Term term = m.masks[0];
    if (const auto offset = CausalOffset(term.value, m.mask_hides_where_true)) {
      attrs.Set("causal", int64_t{1});
      attrs.Set("causal_offset", *offset);
      return kNoValue;
    }
    ACT_TRY(ValueId mask, builder_.Reshape(term.value, *Fitted(term, m), name));
    if (!m.mask_hides_where_true) return mask;
    return builder_.Add1("Equal", {mask, builder_.Scalar(0)}, {}, name);
  }

  // Bias i where it is 0 for some pairs and far below any score for the others: Where(condition, 0, -large),
  // or a constant.
  void TakeMask(Match& m, size_t i) {
    const Term term = m.biases[i];
    ValueId at = term.value;
    const Node* node = Maker(at);
    while (node && node->op == "Identity") {
      at = node->inputs[0];
      node = Maker(at);
    }
    if (node && node->op == "Where" && graph_.value(node->inputs[0]).type.dtype == DType::kBool) {
      const auto a = Number(node->inputs[1]), b = Number(node->inputs[2]);
      if (!a || !b || std::max(*a, *b) != 0 || !(std::min(*a, *b) * term.factor <= kHides)) return;
      m.masks.push_back({node->inputs[0], term.scores});
      m.mask_hides_where_true = *b == 0;
      m.hidden_score = std::min(*a, *b) * term.factor;
    } else if (const auto lowest = LowestOfMask(at); lowest && *lowest * term.factor <= kHides) {
      m.masks.push_back({BoolMask(at), term.scores});
      m.hidden_score = *lowest * term.factor;
    } else {
      return;
    }
    m.hidden_gradient = true;
    m.biases.erase(m.biases.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::optional<std::vector<float>> Floats(ValueId v) const {
    const Value& value = graph_.value(v);
    if (value.kind != ValueKind::kConstant || value.type.dtype != DType::kFloat32 || !value.data.data ||
        !value.type.Elements().IsFixed() || value.data.bytes != value.type.Bytes().fixed)
      return std::nullopt;
    std::vector<float> numbers(static_cast<size_t>(value.data.bytes) / sizeof(float));
    if (!numbers.empty()) std::memcpy(numbers.data(), value.data.data, numbers.size() * sizeof(float));
    return numbers;
  }

  // The other number of a constant of zeros and one negative number.
  std::optional<double> LowestOfMask(ValueId v) const {
    const auto numbers = Floats(v);
    if (!numbers || numbers->empty()) return std::nullopt;
    const float lowest = *std::min_element(numbers->begin(), numbers->end());
    const bool is_mask =
        std::all_of(numbers->begin(), numbers->end(), [lowest](float x) { return x == 0 || x == lowest; });
    return is_mask && lowest < 0 ? std::optional<double>(lowest) : std::nullopt;
  }

  ValueId BoolMask(ValueId v) {
    const std::vector<float> numbers = *Floats(v);
    std::vector<uint8_t> takes_part;
    for (float x : numbers) takes_part.push_back(x == 0);
    return builder_.Constant("", {DType::kBool, DimsOf(v)},
                             HostTensor::Copy(takes_part.data(), static_cast<int64_t>(takes_part.size())));
  }

  // The offset where a constant mask [.., Tq, Tk] lets query i see keys 0..i + offset, in each of its slices.
  std::optional<int64_t> CausalOffset(ValueId v, bool hides_where_true) const {
    const Value& value = graph_.value(v);
    const Dims& dims = value.type.dims;
    if (value.kind != ValueKind::kConstant || !value.data.data || dims.size() < 2 ||
        !value.type.Elements().IsFixed() || value.data.bytes != value.type.Elements().fixed ||
        value.data.bytes == 0)
      return std::nullopt;
    const int64_t queries = dims[dims.size() - 2].fixed, keys = dims.back().fixed;
    const auto sees = [&](int64_t row, int64_t j) {
      return (std::to_integer<int>(value.data.data[row * keys + j]) != 0) != hides_where_true;
    };
    int64_t first = 0;  // keys that query 0 sees
    while (first < keys && sees(0, first)) ++first;
    if (first == 0) return std::nullopt;
    for (int64_t row = 0; row < value.data.bytes / keys; ++row)
      for (int64_t j = 0; j < keys; ++j)
        if (sees(row, j) != (j < first + row % queries)) return std::nullopt;
    return first - 1;
  }

  // The sum of what is added to the scores.
  llvm::Expected<ValueId> Bias(const Match& m, const std::string& name) {
    ValueId sum = kNoValue;
    for (const Term& term : m.biases) {
      ACT_TRY(ValueId bias, builder_.Reshape(term.value, *Fitted(term, m), name));
      if (term.factor != 1) {
        const ValueId factor = builder_.Scalar(static_cast<float>(term.factor));
        ACT_TRY(bias, builder_.Add1("Mul", {bias, factor}, {}, name));
      }
      if (sum != kNoValue) {
        ACT_TRY(bias, builder_.Add1("Add", {sum, bias}, {}, name));
      }
      sum = bias;
    }
    return sum;
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<Node> old_;  // the graph's nodes before this pass
  std::vector<int64_t> producer_;
  std::vector<int> readers_;
  std::vector<ValueId> replacement_;
};

}  // namespace

llvm::Error RecognizeAttention(Graph& graph, PassContext& context) {
  if (!context.policy.rules.fuses_attention) return llvm::Error::success();
  return Recognizer(graph).Run(context);
}

}  // namespace act
