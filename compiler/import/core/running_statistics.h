// Running statistics: the tensors that a BatchNormalization reads as mean and variance, and updates in each step.
#pragma once

#include <llvm/Support/Error.h>

#include <set>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"
#include "runtime/plan/graph.h"

namespace act::onnx_import {

// Their names.
std::set<std::string> RunningStatistics(const std::vector<const onnx::NodeProto*>& nodes);

// Whether the graph has a BatchNormalization, also one that keeps its statistics.
bool HasRunningStatistics(const Graph& graph);

// The error of a statistic that something else reads too, or that is a mean here and a variance there: each reader
// would get another update of it. Several normalizations may share their mean, and their variance.
llvm::Error CheckRunningStatistics(const Graph& graph);

}  // namespace act::onnx_import
