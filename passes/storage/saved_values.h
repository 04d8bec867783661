// Which forward values the backward pass reads, and the facts about each that the policy decides from. Shared
// by the passes that choose what is stored: place-derived, rebuild-saved, compress.
#pragma once

#include <span>

#include "compiler/ir/uses.h"
#include "compiler/ops/traits.h"
#include "passes/pass.h"
#include "runtime/plan/graph.h"

namespace act {

// A reshape or padding: as a derived node it stays in the backward pass, after the decode of what
// it moves.
bool OnlyMoves(const Node& node);

class SavedValues {
 public:
  SavedValues(const Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), uses_(graph) {
    Index();
  }

  // To be called when the graph's nodes or values have changed.
  void Index();

  bool InForward(size_t node) const { return graph_.nodes[node].phase == Phase::kForward; }
  // The node that makes v; -1: none does.
  int64_t Producer(ValueId v) const { return uses_.Producer(v); }
  std::span<const size_t> Readers(ValueId v) const { return uses_.Readers(v); }
  bool MadeInForward(ValueId v) const {
    return Producer(v) >= 0 && InForward(static_cast<size_t>(Producer(v)));
  }
  // Made in the forward pass and read in the backward pass.
  bool Crosses(ValueId v) const;
  // Read by the gradient of a convolution, matrix product or attention.
  bool FeedsProduct(ValueId v) const { return BackwardReadsAs(v, Need::kProduct); }
  EdgeFacts FactsOf(ValueId v) const;
  // Is v stored with an error, where it is stored?
  bool CodesLossily(ValueId v) const { return context_.policy.CodesLossily(FactsOf(v)); }

 private:
  // Does a node of the backward pass read v as `need`? What only moves v is looked through.
  bool BackwardReadsAs(ValueId v, Need need) const;
  // Does any node read v, as it is, as a statistic? Forward nodes too: what they read as one is one
  // wherever the backward pass takes it from.
  bool IsStatistic(ValueId v) const;
  // Where attention reads queries, keys and values of v one behind the other: the elements of each. 0: it
  // does not.
  int64_t PartOfAttention(ValueId v) const;

  const Graph& graph_;
  const PassContext& context_;
  bool fixed_batch_ = true;  // no tensor has a batch axis
  Uses uses_;
};

}  // namespace act
