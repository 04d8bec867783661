// Which nodes may run a tile of samples at a time (sample_loops.h): a rule for each family of
// operators. A rule says why a node may not; nullopt: it may. It is asked of nodes that have as
// many operands and results as their operator takes, that read samples, and whose operands and
// results are all kSame or kSlice.
#pragma once

#include <optional>
#include <string>

#include "runtime/plan/graph.h"

namespace act {

// How an operand or result of a node in a loop goes with its tiles.
enum class TileRole : uint8_t {
  kSame,   // does not depend on N: each tile reads it whole; a result is the sum of what the tiles make
  kSlice,  // samples lie one behind the other: each tile has its own
  kNone,   // anything else cannot be cut
};
TileRole TileRoleOf(const TensorType& type);

// Operand 0 and the results are of samples; which is all that matters where each sample of a result
// is made of the same sample of the operands.
std::optional<std::string> UnlessOfSamples(const Graph& graph, const Node& node);
// The result is a sum over the samples of both operands.
std::optional<std::string> UnlessSumOverSamples(const Graph& graph, const Node& node);

std::optional<std::string> WhyNotTileableLoop(const Graph& graph, const Node& node);
// Samples times weights that are the same for all of them.
std::optional<std::string> WhyNotTileableConvolution(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableProduct(const Graph& graph, const Node& node);
// Along other axes than that of samples.
std::optional<std::string> WhyNotTileableTranspose(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableSlice(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableConcat(const Graph& graph, const Node& node);

}  // namespace act
