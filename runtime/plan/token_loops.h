// Loops over tokens: a loop over samples (sample_loops.h) in which each token of a sample counts as a
// sample of its own, so that a tile may be less than one sample. A sample's tokens are the elements of
// its first axis: [N,T,..] counts as [N,1,..] with T times as many samples. Where tokens and samples are
// one axis already, [T N,..] counts as [N,..]. Codes and random numbers may be there too if they begin
// anew with each token (runtime/codec/code_samples.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/plan/graph.h"

namespace act {

// The type where each of a sample's tokens counts as a sample. A type without samples stays the same.
// Nullopt: a sample does not have this many tokens.
std::optional<TensorType> TokenType(const TensorType& type, int64_t tokens);

// The node alone, as its kernels see it: nodes[0], whose operands and results are the graph's values, of
// such types. Nullopt if one of them has no such type.
std::optional<Graph> TokenGraph(const Graph& graph, const Node& node, int64_t tokens);

// Rules (tile_rules.h) for nodes that may run for some samples at a time: whether each token of a result
// follows from the same token of the operands, or the result is a sum over tokens.
std::optional<std::string> WhyNotOfTokensLoop(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotOfTokensReshape(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotOfTokensProduct(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotOfTokensRows(const Graph& graph, const Node& node);
std::optional<std::string> WhyNotOfTokensLoss(const Graph& graph, const Node& node);

}  // namespace act
