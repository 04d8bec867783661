// A convolution as the library is asked for it.
#pragma once

#include <optional>

#include "kernels/cuda/libraries.h"
#include "kernels/site/window.h"

namespace act::cuda {

// `math` and `alignment` are the caller's to set. Pads at the end are as those at the beginning if that makes as
// many outputs, else as many as the outputs reach.
ConvolutionProblem ProblemOf(const ConvShape& shape, ConvolutionDirection direction);

// The gradient of x as a forward pass: x is dy, w the weights as LibraryWeights::ForInputGradient makes them,
// and y is dx. Nullopt where a stride or groups make it none.
std::optional<ConvolutionProblem> InputGradientAsForward(const ConvShape& shape);

}  // namespace act::cuda
