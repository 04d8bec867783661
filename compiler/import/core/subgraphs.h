// Graphs inside nodes (the branches of If): which names of the outside they read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// The names that a node reads: its inputs, and what its subgraphs read of the outside.
std::vector<std::string> ReadNames(const onnx::NodeProto& node);

// Replaces them. `name` gets each name once or more and is not asked for empty ones.
void RenameReads(onnx::NodeProto& node, const std::function<std::string(const std::string&)>& name);

}  // namespace act::onnx_import
