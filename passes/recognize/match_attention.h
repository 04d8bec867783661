// Finds attention as exporters write it:
//   scores = MatMul(q, k^T), scaled on either operand or afterwards; a soft cap; masks and biases;
//   Softmax; 0 in place of NaN; Dropout; MatMul with v.
// Reshapes of the axes before the last two may stand anywhere between. (Windowed attention adds its
// mask after one.) A model may also have the operator itself, with masks and repeated heads that are
// spelled out.
#pragma once

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "runtime/plan/graph.h"

namespace act {

// The most nodes in a row that a search follows. Models have ten; an endless chain must not exhaust
// the stack.
inline constexpr int kDeepest = 64;

// Whether the last two axes are the same.
bool KeepsMatrices(const Dims& a, const Dims& b);

// All axes but the last two.
Dims LeadingAxes(const Dims& dims);

// A term that is added to the scores, or a mask of them, at a place where they have these dims.
struct ScoreTerm {
  ValueId value;
  Dims scores;
  double factor = 1;              // of an added term
  bool hides_where_true = false;  // of a mask
};

struct AttentionMatch {
  ValueId q = kNoValue, k_transposed = kNoValue, v = kNoValue;
  bool trans_q = false, trans_k = false;  // of the product that makes the scores
  Dims scores;                            // dims of that product
  std::vector<ScoreTerm> biases, masks;
  Dims widest;  // the dims with the most axes that the scores have anywhere
  Dims
      kv_lead;  // the leading axes that k and v are to have: those of `widest`, or with heads for groups of queries
  Attributes attrs;  // of the model's own operator; none if it is spelled out
  double scale = 1, softcap = 0, dropout = 0, hidden_score = -std::numeric_limits<double>::infinity();
  bool hidden_gradient = false;
  bool zero_for_nan = false;  // a query that sees no key gets 0
};

class AttentionMatcher {
 public:
  // `nodes` are those of the graph, wherever they are kept, and must not move. Operands may change
  // names. The graph may get new values, but none of `nodes` makes these.
  AttentionMatcher(const Graph& graph, const std::vector<Node>& nodes);

  // `node` is the product with v, from which this walks back to the product of q and k, or it is the
  // operator. nullopt: the nodes are no attention.
  std::optional<AttentionMatch> Match(const Node& node) const;

  const Value& ValueOf(ValueId v) const { return graph_.value(v); }
  const TensorType& TypeOf(ValueId v) const { return graph_.value(v).type; }
  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }
  // The model's node that makes v. Null: v is no activation of the model.
  const Node* Maker(ValueId v) const { return uses_.ProducerNode(v); }
  // The number that all elements of a constant equal.
  std::optional<double> Number(ValueId v) const;
  // What v repeats along axes, or v.
  ValueId Unexpanded(ValueId v) const;
  // x and c if the node is x * c or x / c, with c a number.
  std::optional<std::pair<ValueId, double>> Scaled(const Node& node) const;
  // The term's dims after its leading axes of extent 1, if it broadcasts
  // to the widest scores by them.
  std::optional<Dims> Fitted(const ScoreTerm& term, const AttentionMatch& m) const;
  // If v: [B.., H, T, D] repeats each head of [B.., Hkv, T, D] for a group of queries: the latter.
  std::optional<ValueId> Ungrouped(ValueId v, const Dims& lead) const;

 private:
  std::optional<AttentionMatch> MatchProduct(const Node& node) const;
  std::optional<AttentionMatch> MatchOperator(const Node& node) const;
  // The node that makes v, if v is read so often. Only nodes whose readers are known become part of the operator.
  const Node* OnlyUse(ValueId v, size_t reads = 1) const;
  // p if the node is p with 0 in place of NaN, and nothing else reads p.
  std::optional<ValueId> WithoutNaN(const Node& node) const;
  // Finds the scores at `at`, which later nodes multiply by `factor`.
  bool FindScores(ValueId at, double factor, int depth, AttentionMatch& m) const;
  // Whether q and k have the scores' leading axes (a product that broadcasts is not that of
  // attention), and each term can broadcast to the scores' widest form.
  bool FitsBatch(const AttentionMatch& m) const;

  const Graph& graph_;
  const Uses uses_;  // of the graph before this pass
};

}  // namespace act
