// Problems in words, for messages and as keys: equal text, equal problem.
#pragma once

#include <string>

#include "kernels/cuda/libraries.h"

namespace act::cuda {

std::string TextOf(const ConvolutionProblem& problem);
// With the bound of the engine's workspace.
std::string TextOf(const ConvolutionProblem& problem, int64_t limit);
std::string TextOf(const ProductProblem& problem);

}  // namespace act::cuda
