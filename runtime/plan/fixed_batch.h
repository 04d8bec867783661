// The batch of a model in which no axis varies with it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/plan/graph.h"

namespace act {

// Whether such a model may be said to have this batch: `fixed`, which was taken from its first input, or the leading
// extent of any other input. Where these differ (the nodes and the edges of a graph), none changes anything.
inline bool AcceptsFixedBatch(const Graph& graph, int64_t fixed, int64_t batch) {
  return batch == fixed || std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](ValueId input) {
           const Dims& dims = graph.value(input).type.dims;
           return !dims.empty() && dims[0] == Dim(batch);
         });
}

}  // namespace act
