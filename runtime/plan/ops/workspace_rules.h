// The scratch space of each family of operators, as workspace.h promises it: functions of shapes
// and attributes. Nodes have as many operands and results as their operator takes. The result never
// falls when N grows.
#pragma once

#include "runtime/plan/graph.h"

namespace act {

Dim LoopWorkspace(const Graph& graph, const Node& node);
Dim ConvWorkspace(const Graph& graph, const Node& node);
Dim ConvGradInputWorkspace(const Graph& graph, const Node& node);
Dim ConvGradWeightWorkspace(const Graph& graph, const Node& node);
Dim MatMulWorkspace(const Graph& graph, const Node& node);
Dim AttentionWorkspace(const Graph& graph, const Node& node);
Dim AttentionGradWorkspace(const Graph& graph, const Node& node);
Dim RecurrentWorkspace(const Graph& graph, const Node& node);
Dim BatchNormWorkspace(const Graph& graph, const Node& node);
// Sums and means. The maximum of a row needs no scratch space.
Dim ReduceWorkspace(const Graph& graph, const Node& node);

}  // namespace act
