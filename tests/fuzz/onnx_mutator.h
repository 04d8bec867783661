// Changes of ONNX models by their meaning: nodes, operators, attributes, shapes, initializers, inputs and outputs,
// versions, functions, and the steps of training_info.
#pragma once

#include <random>

#include "onnx/onnx-ml.pb.h"

namespace act::fuzz {

using Random = std::minstd_rand;

// Makes one change. The model need not have been valid before, and need not be afterwards.
void ChangeModel(onnx::ModelProto& model, Random& random);

}  // namespace act::fuzz
