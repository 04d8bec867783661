// Loops over samples (Graph::loops): parts of the schedule that run for a tile of the batch's
// samples at a time. For example, a convolution's input is decoded for an eighth of the samples,
// their part of the weight's gradient is added, and the next eighth reuses the memory. A tensor
// that only the loop makes and reads never exists whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/tile_rules.h"
#include "runtime/plan/token_loops.h"

namespace act {

// A larger number can only be a mistake.
inline constexpr int64_t kMostTiles = 1 << 20;

// Over how many samples the loop goes: the batch's, or their tokens.
int64_t LoopSamples(const SampleLoop& loop, int64_t batch);

// Samples (or tokens) of each tile. The last tile may have fewer. At least 1; grows with the batch.
int64_t TileSamples(const SampleLoop& loop, int64_t batch);

// Whether the batch is cut. If not, it is not for any smaller batch either.
bool HasTiles(const SampleLoop& loop, int64_t batch);

// Nullopt if the node may run a tile of samples at a time, otherwise the reason why not. It may if
// its results depend on each sample alone, or are sums over samples.
std::optional<std::string> WhyNotTileable(const Graph& graph, const Node& node);
// The same for a tile of tokens, where a sample has `tokens` of them. With 1 it is the function above.
std::optional<std::string> WhyNotTileable(const Graph& graph, const Node& node, int64_t tokens);

// Whether each tile makes a part of this result of the node, and the executor adds the parts.
bool IsSumOfTiles(const Graph& graph, const Node& node, ValueId result);
// Whether the node's kernels go on from what the tiles before left in its results (RuntimeOp::goes_on).
bool GoesOn(const Graph& graph, const Node& node);

// The loop that contains each node; -1: none.
std::vector<int32_t> LoopOfNodes(const Graph& graph);
// The loop that alone makes and reads the value. -1: there is none, and the value exists whole. The
// result of Reshape goes with its operand.
std::vector<int32_t> LoopOfValues(const Graph& graph);
// The same for storages. All values of a storage are in the same loop, or none is.
std::vector<int32_t> LoopOfStorages(const StepGraph& step);

// The samples for which a node or value of the loop with this index exists at a time, and their type
// there. Index -1, no loop: the whole batch.
int64_t SamplesAtATime(const Graph& graph, int32_t loop, int64_t batch);
TensorType TypeIn(const Graph& graph, int32_t loop, const TensorType& type);

// What is wrong with the loops of an untrusted plan, or nullopt. Node positions and value ids have
// been checked before.
std::optional<std::string> CheckLoops(const StepGraph& step);

}  // namespace act
