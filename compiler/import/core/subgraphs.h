// Graphs inside nodes (the branches of If): which outer names they read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// The names that a node reads: its inputs, and the outer names that its subgraphs read.
std::vector<std::string> ReadNames(const onnx::NodeProto& node);

// Replaces these names by `name(old)`, which may be called several times for one name, and never
// for an empty one.
void RenameReads(onnx::NodeProto& node, const std::function<std::string(const std::string&)>& name);

// Replaces what the node reads and makes, and all in graphs inside it: names that such a graph makes itself
// by `prefix` and the old name, all others by `name(old)`. So a name from outside, by which an operand of a
// function is replaced, is never taken for one that a graph inside the function makes.
void RenameAll(onnx::NodeProto& node, const std::function<std::string(const std::string&)>& name,
               const std::string& prefix);

}  // namespace act::onnx_import
