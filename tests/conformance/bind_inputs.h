// Node tests feed every operand, even those that decide shapes. In models such
// operands are constants.
#pragma once

#include <set>
#include <string>

#include "onnx/onnx-ml.pb.h"

namespace act::conformance {

// The graph's inputs that must be known when compiling: those that reach, through any operators but
// Shape and Size, an operand that the importer takes only from constants (the shape of a Reshape,
// axes, the range of a Slice).
std::set<std::string> ConstantInputs(const onnx::GraphProto& graph);

// Turns the graph input into a Constant node with this value.
void BindInput(onnx::GraphProto& graph, const std::string& name, const onnx::TensorProto& value);

// Many operators are tested with f64 data alone, and training computes in f32: makes inputs of f64 f32. Where types are
// converted, that is what is tested, and they stay.
void NarrowInputs(onnx::GraphProto& graph);

}  // namespace act::conformance
