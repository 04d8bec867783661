// The scratch space of each family of operators, as workspace.h promises it: functions of shapes
// and attributes, of nodes that have as many operands and results as their operator takes. They
// never fall when N grows.
#pragma once

#include "runtime/base/target.h"
#include "runtime/plan/graph.h"

namespace act {

Dim LoopWorkspace(const Graph& graph, const Node& node, const Target& target);
Dim ConvWorkspace(const Graph& graph, const Node& node, const Target& target);
Dim ConvGradInputWorkspace(const Graph& graph, const Node& node, const Target& target);
Dim ConvGradWeightWorkspace(const Graph& graph, const Node& node, const Target& target);
Dim MatMulWorkspace(const Graph& graph, const Node& node, const Target& target);
Dim AttentionWorkspace(const Graph& graph, const Node& node, const Target& target);
Dim AttentionGradWorkspace(const Graph& graph, const Node& node, const Target& target);
Dim RecurrentWorkspace(const Graph& graph, const Node& node, const Target& target);
Dim BatchNormWorkspace(const Graph& graph, const Node& node, const Target& target);
// Sums and means; the largest of a row needs none.
Dim ReduceWorkspace(const Graph& graph, const Node& node, const Target& target);

}  // namespace act
