// A prior of what an error of each code does to the gradient, from the graph alone: what mix-levels
// distributes levels by before anything was measured.
#pragma once

#include <map>

#include "runtime/plan/graph.h"

namespace act {

// What a code adds to |g_q - g|^2, up to a factor common to all codes of the graph, where the error of each
// decoded number has the variance of the numbers themselves.
struct GradientShare {
  double value = 0;  // of what is read as a number, where the gradient passes
  double mean = 0;   // of what only enters the means in a normalization's gradient, wherever it is
};

// By the ids of the codes: results of Compress nodes with levels, of the backward pass's own (what waits
// there for its readers) too. The graph is one behind `compress`, sizes are taken at `batch`.
std::map<ValueId, GradientShare> EstimateShares(const Graph& graph, int64_t batch);

}  // namespace act
