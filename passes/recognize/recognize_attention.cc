// Turns attention as exporters write it (match_attention.h) into one operator. Heads of k and v
// that the model repeats for groups of queries are no longer repeated. Transposes are read as they
// are: cancel-transposes later folds those of heads into the operator.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "compiler/ir/replace.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/recognize/match_attention.h"
#include "passes/recognize/visible_keys.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// A number that hides a pair when it is added to a score. It is far below any score, so that the
// score is lost.
constexpr double kHides = -1e12;

Dims WithMatrix(Dims leading, const Dims& matrix_of) {
  leading.insert(leading.end(), matrix_of.end() - 2, matrix_of.end());
  return leading;
}

class Recognizer {
 public:
  Recognizer(Graph& graph, Marks& marks)
      : graph_(graph),
        builder_(graph),
        old_(std::exchange(graph.nodes, {})),
        attention_(graph, old_),
        replacements_(graph, marks) {}

  llvm::Error Run() {
    for (Node& node : old_) {
      replacements_.Update(node);
      if (std::optional<AttentionMatch> match = attention_.Match(node)) {
        ACT_TRY(const ValueId y, Build(node, *match));
        replacements_.Replace(node.outputs[0], y);
      } else {
        graph_.nodes.push_back(node);
      }
    }
    return llvm::Error::success();
  }

 private:
  // If v is a scaled tensor, possibly reshaped and transposed after that: the same reshapes and
  // transposes of the tensor without its scale. Multiplies `scale` by the scale.
  llvm::Expected<ValueId> Unscaled(ValueId v, double& scale, int depth = kDeepest) {
    const Node* node = attention_.Maker(v);
    if (!node || depth == 0) return v;
    if (const auto scaled = attention_.Scaled(*node)) {
      scale *= scaled->second;
      return Unscaled(scaled->first, scale, depth - 1);
    }
    if (node->op != "Reshape" && node->op != "Transpose") return v;
    ACT_TRY(const ValueId inner, Unscaled(node->inputs[0], scale, depth - 1));
    if (inner == node->inputs[0]) return v;
    return builder_.AddTyped(node->op, {inner}, graph_.value(v).type, node->attrs, node->name);
  }

  llvm::Expected<ValueId> SwapLastTwo(ValueId v, const std::string& name) {
    std::vector<int64_t> perm(attention_.DimsOf(v).size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[perm.size() - 2], perm.back());
    const Node* node = attention_.Maker(v);
    if (node && node->op == "Transpose" && node->attrs.Ints("perm") == perm) return node->inputs[0];
    return builder_.Transpose(v, perm, name);
  }

  llvm::Expected<ValueId> Build(const Node& node, AttentionMatch& m) {
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
    const Dims lead = LeadingAxes(m.widest);
    ACT_TRY(q, builder_.Reshape(q, WithMatrix(lead, attention_.DimsOf(q)), name));
    Dims kv_lead = lead;
    if (const auto k_once = attention_.Ungrouped(k, lead), v_once = attention_.Ungrouped(v, lead);
        k_once && v_once) {
      kv_lead.back() = attention_.DimsOf(*k_once)[lead.size() - 1];
      if (attention_.DimsOf(*v_once)[lead.size() - 1] == kv_lead.back()) {
        k = *k_once;
        v = *v_once;
      } else {
        kv_lead = lead;
      }
    }
    ACT_TRY(k, builder_.Reshape(k, WithMatrix(kv_lead, attention_.DimsOf(k)), name));
    ACT_TRY(v, builder_.Reshape(v, WithMatrix(kv_lead, attention_.DimsOf(v)), name));

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
    return builder_.Reshape(o, attention_.DimsOf(node.outputs[0]), name);
  }

  // The pairs that take part, as a bool operand or as the attribute `causal`, or as both.
  llvm::Expected<ValueId> Mask(AttentionMatch& m, Attributes& attrs, const std::string& name) {
    for (size_t i = 0; i < m.biases.size() && m.masks.empty(); ++i) TakeMask(m, i);
    if (m.masks.empty()) return kNoValue;
    const ScoreTerm& term = m.masks[0];
    const MaskTerm whole{term.value, m.mask_hides_where_true};
    std::optional<int64_t> causal;
    std::vector<MaskTerm> terms = TermsBesideCausal(m, whole, causal);
    const auto fits = [&](const MaskTerm& t) {
      return attention_.Fitted({t.value, term.scores}, m).has_value();
    };
    if (!std::all_of(terms.begin(), terms.end(), fits)) {
      terms = {whole};
      causal.reset();
    }
    if (terms.empty() && !causal) return kNoValue;  // every query sees all keys
    // A query that sees no key: if all its scores are equal and finite, its result is the mean of
    // the values. If they are -infinity, its result is NaN, which is the default.
    if (std::isfinite(m.hidden_score)) attrs.Set("empty_row", std::string("mean"));
    if (m.hidden_gradient) attrs.Set("hidden_gradient", int64_t{1});
    if (causal) {
      attrs.Set("causal", int64_t{1});
      attrs.Set("causal_offset", *causal);
    }
    ValueId mask = kNoValue;
    for (const MaskTerm& t : terms) {
      ACT_TRY(ValueId visible,
              builder_.Reshape(t.value, *attention_.Fitted({t.value, term.scores}, m), name));
      if (t.hides_where_true) {
        ACT_TRY(visible, builder_.Add1("Equal", {visible, builder_.Scalar(0)}, {}, name));
      }
      if (mask != kNoValue) {
        ACT_TRY(visible, And(mask, visible, name));
      }
      mask = visible;
    }
    return mask;
  }

  llvm::Expected<ValueId> And(ValueId a, ValueId b, const std::string& name) {
    Attributes to_float;
    to_float.Set("to", static_cast<int64_t>(DType::kFloat32));
    ACT_TRY(const ValueId x, builder_.Add1("Cast", {a}, to_float, name));
    ACT_TRY(const ValueId y, builder_.Add1("Cast", {b}, to_float, name));
    ACT_TRY(const ValueId both, builder_.Add1("Mul", {x, y}, {}, name));
    return builder_.Add1("Greater", {both, builder_.Scalar(0)}, {}, name);
  }

  // The terms of a mask without those that hide nothing and those that hide later keys, which become `causal`.
  std::vector<MaskTerm> TermsBesideCausal(const AttentionMatch& m, const MaskTerm& mask,
                                          std::optional<int64_t>& causal) const {
    const Dim queries = m.widest[m.widest.size() - 2], keys = m.widest.back();
    if (!queries.IsFixed() || !keys.IsFixed()) return {mask};
    const VisibleKeys visible(attention_, queries.fixed, keys.fixed);
    std::vector<MaskTerm> others;
    for (const MaskTerm& term : visible.TermsOf(mask)) {
      const auto ranges = visible.Of(term);
      if (ranges && AllVisible(*ranges, keys.fixed)) continue;
      if (const auto offset = ranges ? CausalOffset(*ranges, keys.fixed) : std::nullopt)
        causal = std::min(*offset, causal.value_or(*offset));
      else
        others.push_back(term);
    }
    return others;
  }

  // Takes bias i as a mask if it is 0 for some pairs and far below any score for the others:
  // Where(condition, 0, -large), or a constant.
  void TakeMask(AttentionMatch& m, size_t i) {
    const ScoreTerm term = m.biases[i];
    ValueId at = term.value;
    const Node* node = attention_.Maker(at);
    while (node && node->op == "Identity") {
      at = node->inputs[0];
      node = attention_.Maker(at);
    }
    if (node && node->op == "Where" && graph_.value(node->inputs[0]).type.dtype == DType::kBool) {
      const auto a = attention_.Number(node->inputs[1]), b = attention_.Number(node->inputs[2]);
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

  // The negative number in a constant of zeros and one negative number.
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
    takes_part.reserve(numbers.size());
    for (float x : numbers) takes_part.push_back(x == 0);
    return builder_.Constant("", {DType::kBool, attention_.DimsOf(v)},
                             HostTensor::Copy(takes_part.data(), static_cast<int64_t>(takes_part.size())));
  }

  // The sum of the terms that are added to the scores.
  llvm::Expected<ValueId> Bias(const AttentionMatch& m, const std::string& name) {
    ValueId sum = kNoValue;
    for (const ScoreTerm& term : m.biases) {
      ACT_TRY(ValueId bias, builder_.Reshape(term.value, *attention_.Fitted(term, m), name));
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
  const AttentionMatcher attention_;
  Replacements replacements_;
};

}  // namespace

llvm::Error RecognizeAttention(Graph& graph, PassContext& context) {
  return Recognizer(graph, context.marks).Run();
}

}  // namespace act
