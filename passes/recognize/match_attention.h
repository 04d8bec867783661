// Finds attention as exporters write it:
//   scores = MatMul(q, k^T), scaled on either operand or behind; a soft cap; masks and biases; Softmax;
//   Dropout; MatMul with v.
// Reshapes of the axes before the last two may stand anywhere between (windowed attention adds its mask
// behind one).
#pragma once

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "runtime/plan/graph.h"

namespace act {

// Nodes in a row that a search follows: models have ten; an endless chain must not exhaust the stack.
inline constexpr int kDeepest = 64;

// All axes but the last two.
Dims LeadingAxes(const Dims& dims);

// Added to the scores, or a mask of them, where they have these dims.
struct ScoreTerm {
  ValueId value;
  Dims scores;
  double factor = 1;  // of an added term
};

struct AttentionMatch {
  ValueId q = kNoValue, k_transposed = kNoValue, v = kNoValue;
  bool trans_q = false, trans_k = false;  // of the product of scores
  Dims scores;                            // dims of that product
  std::vector<ScoreTerm> biases, masks;
  Dims widest;  // of all dims that scores take on, those with the most axes
  double scale = 1, softcap = 0, dropout = 0, hidden_score = -std::numeric_limits<double>::infinity();
  bool hidden_gradient = false;
  bool mask_hides_where_true = false;
};

class AttentionMatcher {
 public:
  // `nodes` are those of the graph, wherever they are kept, and must not move; operands may change names, and
  // the graph may get new values, which none of them makes.
  AttentionMatcher(const Graph& graph, const std::vector<Node>& nodes);

  // Walks back from the product with v, `node`, to that of q and k; nullopt where it is not attention's.
  std::optional<AttentionMatch> Match(const Node& node) const;

  const Dims& DimsOf(ValueId v) const { return graph_.value(v).type.dims; }
  // The model's node that makes v; null for what is no activation of the model.
  const Node* Maker(ValueId v) const { return uses_.ProducerNode(v); }
  // The number that all elements of a constant are.
  std::optional<double> Number(ValueId v) const;
  // x and c where the node is x * c or x / c, with c a number.
  std::optional<std::pair<ValueId, double>> Scaled(const Node& node) const;
  // The term's dims behind its leading axes of extent 1, where it broadcasts to the widest scores by them.
  std::optional<Dims> Fitted(const ScoreTerm& term, const AttentionMatch& m) const;
  // [B.., H, T, D] that repeats each head of [B.., Hkv, T, D] for a group of queries: the latter.
  std::optional<ValueId> Ungrouped(ValueId v, const Dims& lead) const;

 private:
  // The maker where nothing else reads v: what is taken into the operator.
  const Node* OnlyUse(ValueId v) const;
  // The scores at `at`, which what follows multiplies by `factor`.
  bool FindScores(ValueId at, double factor, int depth, AttentionMatch& m) const;
  // Do q and k have the scores' leading axes (a product that broadcasts is none of attention), and can each
  // term broadcast to the widest of their forms?
  bool FitsBatch(const AttentionMatch& m) const;

  const Graph& graph_;
  const Uses uses_;  // before this pass
};

}  // namespace act
