// --init=he: initial weights for a model that came without them.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/plan/graph.h"

namespace act::onnx_import {

// f32 data of the type (dims fixed): He-normal, N(0, 2 / fan-in), where the rank is 2 or more and fan-in is
// the product of all extents but the first; rank 0 and 1: ones where the name has "weight" or "var" in it
// (scales and variances of norms), else zeros. The same numbers for the same seed and name on every machine
// with the same libm, whatever the number of threads.
HostTensor HeNormal(const std::string& name, const TensorType& type, uint64_t seed);

}  // namespace act::onnx_import
