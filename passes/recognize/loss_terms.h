// What a loss is a mean over, term by term.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// The loss has `factor` times `value`, a float32 of one element.
struct LossTerm {
  ValueId value = kNoValue;
  double factor = 1;
  // The position of the cross entropy that makes the value; -1: none does.
  int64_t cross_entropy = -1;
  // What a sum over the batch was divided by, if that follows from the data alone: the number of labels that are not
  // ignored, the sum of a mask. kNoValue: a cross entropy, or a mean over the samples (as far as one can tell).
  ValueId divisor = kNoValue;
  // The sum in the divisor: the same value, or what a smallest number or an epsilon was applied to. May be integer.
  ValueId counted = kNoValue;
  bool of_means = false;  // what was divided, and the sum, are means over all elements and no sums
};

// The terms whose sum the first output is. It follows sums, differences, and products with numbers.
std::vector<LossTerm> LossTermsOf(Graph& graph);

}  // namespace act
