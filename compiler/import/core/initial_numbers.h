// Seeded initial weights: for a model that comes without them (--init=he), and for one that says
// how to draw them (TrainingInfoProto's initialization). A seed and a name give the same numbers on
// every machine with the same libm, with any number of threads.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/plan/graph.h"

namespace act::onnx_import {

// f32 data of the type (dims fixed). From rank 2 on it is He-normal, N(0, 2 / fan-in), where fan-in
// is the product of all extents but the first. At rank 0 and 1 it is ones where the name contains
// "weight" or "var" (scales and variances of norms), else zeros.
HostTensor HeNormal(const std::string& name, const TensorType& type, uint64_t seed);

// N(mean, deviation^2), and uniform in [low, high).
HostTensor Normal(const std::string& name, const TensorType& type, double mean, double deviation,
                  uint64_t seed);
HostTensor Uniform(const std::string& name, const TensorType& type, double low, double high, uint64_t seed);

}  // namespace act::onnx_import
