// Where re-runs start: the values that stay stored when what lies between them is computed again.
#pragma once

#include <set>
#include <vector>

#include "passes/storage/saved_values.h"

namespace act {

// A node worth counting when it runs a second time: a convolution or a matrix product.
bool IsHeavy(const Node& node);

// A stretch of the forward pass, nodes [begin, end). What it computes can be computed again from `anchors`,
// the large values alive at its begin, from parameters and inputs.
struct Segment {
  size_t begin = 0, end = 0;
  std::set<ValueId> anchors;
  int64_t largest = 0;  // elements a sample of the largest result of a heavy node
};

// Cuts the forward pass into segments of at most `spacing` heavy nodes, where the least new bytes are alive
// for each heavy node behind the cut before. In a chain of residual blocks that is behind every so many
// blocks; in a U-net what skips is alive too.
std::vector<Segment> CutForward(const Graph& graph, const SavedValues& saved, int64_t spacing);

}  // namespace act
