// Node tests feed everything, also what decides shapes. Models have such operands as constants.
#pragma once

#include <set>
#include <string>

#include "onnx/onnx-ml.pb.h"

namespace act::conformance {

// Inputs of the graph that must be known when compiling: those that reach, through any operators but Shape
// and Size, an operand that the importer takes from constants alone (the shape of a Reshape, axes, the range
// of a Slice).
std::set<std::string> ConstantInputs(const onnx::GraphProto& graph);

// Makes the graph input a Constant node with this value.
void BindInput(onnx::GraphProto& graph, const std::string& name, const onnx::TensorProto& value);

}  // namespace act::conformance
