// Cuts the forward pass into segments. Re-runs start from the values at the cuts, which stay
// stored; what lies between is recomputed.
#pragma once

#include <set>
#include <vector>

#include "passes/storage/saved_values.h"

namespace act {

// A convolution or a matrix product. Only such nodes count when they run a second time.
bool IsHeavy(const Node& node);

// x, mean, rstd -> normalized x
bool IsNormalize(const Node& node);
bool NormalizesRows(const Node& node);

// A stretch of the forward pass, nodes [begin, end). Its values can be recomputed from `anchors`,
// the large values alive at its begin, and from parameters and inputs.
struct Segment {
  size_t begin = 0, end = 0;
  std::set<ValueId> anchors;
  int64_t largest = 0;  // elements a sample of the largest result of a heavy node
};

// Cuts the forward pass into segments of at most `spacing` heavy nodes. A cut is where the fewest
// new bytes are alive for each heavy node since the cut before. In a chain of residual blocks that
// is after every few blocks. In a U-net the values of skip connections are alive too.
std::vector<Segment> CutForward(const Graph& graph, const SavedValues& saved, int64_t spacing);

// Those that may be re-run: their largest result has at most `elements` a sample, and so is small enough to lie in
// memory a second time. Where rows are normalized, more can be recomputed from the normalized values than from a cut.
std::vector<Segment> RerunSegments(const Graph& graph, const SavedValues& saved, int64_t spacing,
                                   int64_t elements);

// For each node of the forward pass the number of its block, from 1. A block ends where a single large value is alive,
// and has three heavy nodes or more: a residual block, two small ones, or three layers of a chain.
std::vector<int64_t> BlocksOfForward(const Graph& graph, const SavedValues& saved);

}  // namespace act
