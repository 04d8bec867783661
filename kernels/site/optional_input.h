// Inputs of a node that may be left out.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/site/dereference.h"
#include "runtime/executor/kernel.h"

namespace act {

// The input, or null if it is left out.
inline const TensorView* OptionalInput(std::span<const TensorView> inputs, size_t i) {
  return i < inputs.size() && inputs[i].bytes > 0 ? &inputs[i] : nullptr;
}

// The floats in input `i` (class weights, an initial state), or null.
inline const float* OptionalFloats(const KernelArgs& args, size_t i) {
  const TensorView* input = OptionalInput(args.inputs, i);
  return input ? input->as<float>() : nullptr;
}

}  // namespace act
