// Finds attention as exporters write it:
//   scores = MatMul(q, k^T), scaled on either operand or afterwards; a soft cap; masks and biases;
//   Softmax; Dropout; MatMul with v.
// Reshapes of the axes before the last two may stand anywhere between. (Windowed attention adds its
// mask after one.)
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

// All axes but the last two.
Dims LeadingAxes(const Dims& dims);

// A term that is added to the scores, or a mask of them, at a place where they have these dims.
struct ScoreTerm {
  ValueId value;
  Dims scores;
  double factor = 1;  // of an added term
};

struct AttentionMatch {
  ValueId q = kNoValue, k_transposed = kNoValue, v = kNoValue;
  bool trans_q = false, trans_k = false;  // of the product that makes the scores
  Dims scores;                            // dims of that product
  std::vector<ScoreTerm> biases, masks;
  Dims widest;  // the dims with the most axes that the scores have anywhere
  double scale = 1, softcap = 0, dropout = 0, hidden_score = -std::numeric_limits<double>::infinity();
  bool hidden_gradient = false;
  bool mask_hides_where_true = false;
};

class AttentionMatcher {
 public:
  // `nodes` are those of the graph, wherever they are kept, and must not move. Operands may change
  // names. The graph may get new values, but none of `nodes` makes these.
  AttentionMatcher(const Graph& graph, const std::vector<Node>& nodes);

  // Walks back from `node`, the product with v, to the product of q and k. nullopt: the nodes are
  // no attention.
  std::optional<AttentionMatch> Match(const Node& node) const;

  const Value& ValueOf(ValueId v) const { return graph_.value(v); }
  const TensorType& TypeOf(ValueId v) const { return graph_.value(v).type; }
  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }
  // The model's node that makes v. Null: v is no activation of the model.
  const Node* Maker(ValueId v) const { return uses_.ProducerNode(v); }
  // The number that all elements of a constant equal.
  std::optional<double> Number(ValueId v) const;
  // x and c if the node is x * c or x / c, with c a number.
  std::optional<std::pair<ValueId, double>> Scaled(const Node& node) const;
  // The term's dims after its leading axes of extent 1, if it broadcasts
  // to the widest scores by them.
  std::optional<Dims> Fitted(const ScoreTerm& term, const AttentionMatch& m) const;
  // If v: [B.., H, T, D] repeats each head of [B.., Hkv, T, D] for a group of queries: the latter.
  std::optional<ValueId> Ungrouped(ValueId v, const Dims& lead) const;

 private:
  // The node that makes v, if nothing else reads v. Only such nodes become part of the operator.
  const Node* OnlyUse(ValueId v) const;
  // Finds the scores at `at`, which later nodes multiply by `factor`.
  bool FindScores(ValueId at, double factor, int depth, AttentionMatch& m) const;
  // Whether q and k have the scores' leading axes (a product that broadcasts is not that of
  // attention), and each term can broadcast to the scores' widest form.
  bool FitsBatch(const AttentionMatch& m) const;

  const Graph& graph_;
  const Uses uses_;  // of the graph before this pass
};

}  // namespace act
