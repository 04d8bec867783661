// What the two files of Recipes ask of operators and values.
#pragma once

#include "compiler/ops/op_table.h"
#include "compiler/policy/policy.h"

namespace act {

inline bool IsReshape(const OpDef& op) { return op.movement == Movement::kReshape; }
inline bool IsConcat(const OpDef& op) { return op.movement == Movement::kConcat; }
inline bool IsSum(const OpDef& op) { return op.arithmetic == Arithmetic::kSum; }

// Varies with the sample, as far as types tell.
inline bool OfSamples(const EdgeFacts& facts) {
  return HasBatchAxis(facts.type) || (facts.fixed_batch && facts.type.rank() > 1);
}

// The probabilities of a loss are its second result.
inline bool IsLoss(const Node& node, ValueId v) {
  return OpOf(node).loss && node.outputs.size() > 1 && node.outputs[1] == v;
}

}  // namespace act
