// Turns attention as exporters write it (match_attention.h) into one operator. Heads of k and v
// that the model repeats for groups of queries are no longer repeated. Transposes are read as they
// are: cancel-transposes later folds those of heads into the operator.
#include <utility>

#include "compiler/ir/replace.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"
#include "passes/recognize/attention_factors.h"
#include "passes/recognize/attention_masks.h"
#include "passes/recognize/match_attention.h"
#include "runtime/base/error.h"

namespace act {
namespace {

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
        factors_(builder_, attention_),
        masks_(builder_, attention_, factors_),
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
  llvm::Expected<ValueId> Build(const Node& node, AttentionMatch& m) {
    const std::string& name = node.name;
    ACT_TRY(ValueId q, factors_.Unscaled(m.q, m.trans_q, m.scale, name));
    ACT_TRY(ValueId k, factors_.Unscaled(m.k_transposed, !m.trans_k, m.scale, name));
    ValueId v = m.v;
    ACT_TRY(q, builder_.Reshape(q, WithMatrix(LeadingAxes(m.widest), attention_.DimsOf(q)), name));
    Dims kv_lead = m.kv_lead;
    if (const auto k_once = attention_.Ungrouped(k, kv_lead), v_once = attention_.Ungrouped(v, kv_lead);
        k_once && v_once) {
      const size_t head = kv_lead.size() - 1;
      if (attention_.DimsOf(*k_once)[head] == attention_.DimsOf(*v_once)[head]) {
        k = *k_once;
        v = *v_once;
        kv_lead.back() = attention_.DimsOf(k)[head];
      }
    }
    ACT_TRY(k, builder_.Reshape(k, WithMatrix(kv_lead, attention_.DimsOf(k)), name));
    ACT_TRY(v, builder_.Reshape(v, WithMatrix(kv_lead, attention_.DimsOf(v)), name));

    Attributes attrs = m.attrs;
    ACT_TRY(const ValueId mask, masks_.Mask(m, attrs, name));
    ACT_TRY(const ValueId bias, Bias(m, name));
    const bool hides = mask != kNoValue || attrs.Has("causal") || attrs.Has("window");
    if (m.zero_for_nan && (hides || bias != kNoValue) && !attrs.Has("empty_row"))
      attrs.Set("empty_row", std::string("zero"));
    attrs.Set("scale", m.scale);
    if (m.softcap > 0) attrs.Set("softcap", m.softcap);
    if (m.dropout > 0) attrs.Set("probability", m.dropout);
    std::vector<ValueId> inputs{q, k, v};
    if (bias != kNoValue || mask != kNoValue) inputs.push_back(bias);
    if (mask != kNoValue) inputs.push_back(mask);
    ACT_TRY(const ValueId o, builder_.Add1("Attention", inputs, attrs, name));
    return builder_.Reshape(o, attention_.DimsOf(node.outputs[0]), name);
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
  AttentionFactors factors_;
  AttentionMasks masks_;
  Replacements replacements_;
};

}  // namespace

llvm::Error RecognizeAttention(Graph& graph, PassContext& context) {
  return Recognizer(graph, context.marks).Run();
}

}  // namespace act
