// Which nodes may run a tile of samples at a time (sample_loops.h): a rule for each family of
// operators. A rule returns the reason why a node may not, or nullopt if it may. Rules apply to
// nodes that have as many operands and results as their operator takes, that read samples, and
// whose operands and results are all kSame or kSlice.
#pragma once

#include <optional>
#include <string>

#include "runtime/plan/graph.h"

namespace act {

// How an operand or result of a node in a loop relates to the loop's tiles.
enum class TileRole : uint8_t {
  // Does not depend on N: each tile reads it whole. A result is the sum over tiles.
  kSame,
  // samples lie one after the other, and each tile has its own
  kSlice,
  kNone,  // anything else cannot be cut
};
TileRole TileRoleOf(const TensorType& type);

// Operand 0 and the results must hold samples. Nothing else matters if each sample of a result is
// computed from the same sample of the operands.
std::optional<std::string> UnlessOfSamples(const Graph& graph, const Node& node);
// The result is of all samples so far, and the kernel goes on from it (RuntimeOp::goes_on).
std::optional<std::string> UnlessStateOfSamples(const Graph& graph, const Node& node);
// The result is a sum over the samples of both operands.
std::optional<std::string> UnlessSumOverSamples(const Graph& graph, const Node& node);

std::optional<std::string> WhyNotTileableLoop(const Graph& graph, const Node& node);
// Samples times weights that are the same for all of them.
std::optional<std::string> WhyNotTileableConvolution(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableProduct(const Graph& graph, const Node& node);
// Of each sample by itself: its queries, keys and values, and masks and biases of it or of all samples. AttentionGrad
// reads the result's gradient before them.
std::optional<std::string> WhyNotTileableAttention(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableAttentionGrad(const Graph& graph, const Node& node);
// Along axes other than that of the samples.
std::optional<std::string> WhyNotTileableTranspose(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableSlice(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableConcat(const Graph& graph, const Node& node);
// Each row of the last axis by itself: a softmax, and a reduction of rows.
std::optional<std::string> WhyNotTileableRows(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableReduction(const Graph& graph, const Node& node);
// A cross entropy that sums, or whose mean has its denominator as an operand: a tile knows only the labels of its
// own samples.
std::optional<std::string> WhyNotTileableLoss(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableCount(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotTileableLossGrad(const Graph& graph, const Node& node);

}  // namespace act
