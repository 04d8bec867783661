// Finds the forward values that the backward pass reads, and the facts about each from which the
// policy decides. The passes that choose what is stored share it:
// place-derived, rebuild-saved, compress.
#pragma once

#include <span>

#include "compiler/ir/uses.h"
#include "compiler/ir/value_map.h"
#include "compiler/ops/traits.h"
#include "passes/pass.h"
#include "runtime/plan/graph.h"

namespace act {

// A reshape or padding. As a derived node it stays in the backward pass,
// after the decode of its operand.
bool OnlyMoves(const Node& node);

class SavedValues {
 public:
  SavedValues(const Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), uses_(graph), normalized_rows_(graph), score_size_(graph, 1) {
    Index();
  }

  bool InForward(size_t node) const { return graph_.nodes[node].phase == Phase::kForward; }
  // The node that makes v. -1: no node does.
  int64_t Producer(ValueId v) const { return uses_.Producer(v); }
  std::span<const size_t> Readers(ValueId v) const { return uses_.Readers(v); }
  bool MadeInForward(ValueId v) const {
    return Producer(v) >= 0 && InForward(static_cast<size_t>(Producer(v)));
  }
  // Whether the forward pass makes v and the backward pass reads it.
  bool Crosses(ValueId v) const;
  // Whether the gradient of a convolution, matrix product or attention reads v.
  bool FeedsProduct(ValueId v) const { return BackwardReadsAs(v, Need::kProduct); }
  EdgeFacts FactsOf(ValueId v) const;
  // Whether v would be stored with an error.
  bool CodesLossily(ValueId v) const { return context_.policy.CodesLossily(FactsOf(v)); }

 private:
  // Whether a node of the backward pass reads v as `need`, directly or
  // through nodes that only move v.
  bool BackwardReadsAs(ValueId v, Need need) const;
  // Whether any node reads v itself as a statistic. Forward nodes count too: a value that they read
  // as a statistic is one for the backward pass as well.
  bool IsStatistic(ValueId v) const;
  // If attention reads queries, keys and values from v, one after the other: the number of elements
  // of each. Else 0.
  int64_t PartOfAttention(ValueId v) const;

  // EdgeFacts::score_bits. The backward pass may make queries or keys from v by elementwise operators and those that move
  // numbers. Normalized rows of n elements have products of about sqrt(n), which attention's usual scale makes about 1.
  // Of other rows the size is not known.
  int ScoreBitsOf(ValueId v) const;
  void Index();
  void FindNormalizedRows();
  void FindScoreSizes();
  // The size of the scores that the reader makes of the operand, if that is a normalized row. 1: it makes none.
  double ScoreSizeOfRead(const Node& reader, size_t operand) const;
  // Is it a ReLU's result, or some of one?
  bool OftenZero(ValueId v) const;
  // The result of the product that makes v, up to elementwise operators and to those that move its numbers.
  // kNoValue: there is none.
  ValueId ProductBehind(ValueId v) const;
  // Whether the forward pass makes only a loss from the scores: a cross entropy, with penalties beside it or not.
  bool OnlyLossReads(ValueId scores) const;

  const Graph& graph_;
  const PassContext& context_;
  bool fixed_batch_ = true;  // no tensor has samples
  Uses uses_;
  // Whether a normalization of rows makes the value, up to elementwise operators (rotary embeddings) and to those that
  // move its numbers.
  ValueMap<bool> normalized_rows_;
  ValueMap<double> score_size_;  // of ScoreSizeOfRead: the largest that the backward pass makes of the value
};

}  // namespace act
