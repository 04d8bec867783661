// Estimates, from the graph alone, how an error of each code changes the gradient. mix-levels
// distributes levels by this prior before anything was measured.
#pragma once

#include <map>

#include "runtime/plan/graph.h"

namespace act {

struct OpDef;

// Whether its result has a mean square of about 1, whatever it reads.
bool Normalizes(const OpDef& op);

// What a code adds to |g_q - g|^2 if the error of each decoded number has the variance of the
// numbers themselves. It is relative to a factor common to all codes of the graph.
struct GradientShare {
  // Through readers of the number itself. Only elements at which a gradient passes count.
  double value = 0;
  // Through the means in a normalization's gradient. All elements count.
  double mean = 0;
};

// By the ids of the codes. They are the results of all Compress nodes with levels, including those
// of the backward pass, whose results wait there for their readers. The graph is one after
// `compress`. Sizes are taken at `batch`. `gradient_square`, if not null, becomes the squared norm of
// the whole gradient in the same units.
std::map<ValueId, GradientShare> EstimateShares(const Graph& graph, int64_t batch,
                                                double* gradient_square = nullptr);

}  // namespace act
