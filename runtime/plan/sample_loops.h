// Loops over samples (Graph::loops): parts of the schedule that run for a tile of the batch's samples at a
// time. A convolution's input, say, is decoded for an eighth of the samples, the weight's gradient of these
// is added, and the next eighth takes the memory of the last: a tensor that only the loop makes and reads
// never exists whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/tile_rules.h"

namespace act {

// More would only ever be a mistake.
inline constexpr int64_t kMostTiles = 1 << 20;

// Samples of each tile but the last, which may have fewer. At least 1; grows with the batch.
int64_t TileSamples(const SampleLoop& loop, int64_t batch);

// Whether the node may run a tile of samples at a time: its results are those of each sample alone, or sums
// over samples. Nullopt where it may, else why not.
std::optional<std::string> WhyNotTileable(const Graph& graph, const Node& node);

// The loop that each node is in; -1: none.
std::vector<int32_t> LoopOfNodes(const Graph& graph);
// The loop that makes and reads the value and nothing else does; -1: there is none, the value exists whole.
// What Reshape makes goes with its operand.
std::vector<int32_t> LoopOfValues(const Graph& graph);
// The same of storages, all of whose values are of one kind.
std::vector<int32_t> LoopOfStorages(const StepGraph& step);

// What is wrong with the loops of an untrusted plan; nullopt: nothing. Node positions and value ids are
// checked before.
std::optional<std::string> CheckLoops(const StepGraph& step);

}  // namespace act
