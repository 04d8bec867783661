// The scratch space of each family of operators, as workspace.h promises it: functions of types and
// attributes, of nodes that have as many operands and results as their operator takes. They never
// fall when N grows.
#pragma once

#include "runtime/base/capped_dim.h"
#include "runtime/base/target.h"
#include "runtime/plan/graph.h"

namespace act {

// Of the CPU's kernels (workspace_rules.cc).
CappedDim LoopWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim ConvWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim ConvGradInputWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim ConvGradWeightWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim MatMulWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim AttentionWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim AttentionGradWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim RecurrentWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim BatchNormWorkspace(const Graph& graph, const Node& node, const Target& target);
// Sums and means; the largest of a row needs none.
CappedDim ReduceWorkspace(const Graph& graph, const Node& node, const Target& target);

// Of a card's kernels (cuda_workspace_rules.cc).
CappedDim CudaLoopWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaConvWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaConvGradWeightWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaMatMulWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaAttentionGradWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaRecurrentWorkspace(const Graph& graph, const Node& node, const Target& target);
// Reductions to extents that do not vary with N.
CappedDim CudaRowSumsWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaBatchNormWorkspace(const Graph& graph, const Node& node, const Target& target);
// The sums over all rows of a loss, of the weights of labels, or of labels that are the argmax.
CappedDim CudaLossWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaScatterWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaTopKWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaGridGradientWorkspace(const Graph& graph, const Node& node, const Target& target);
CappedDim CudaNonZeroWorkspace(const Graph& graph, const Node& node, const Target& target);

}  // namespace act
