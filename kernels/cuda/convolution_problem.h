// A convolution as the library is asked for it.
#pragma once

#include "kernels/cuda/libraries.h"
#include "kernels/site/window.h"

namespace act::cuda {

// `math` and `alignment` are the caller's to set. Pads at the end are those that the outputs reach: what lies
// between a model's pads and them no window reads.
ConvolutionProblem ProblemOf(const ConvShape& shape, ConvolutionDirection direction);

}  // namespace act::cuda
