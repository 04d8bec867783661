// Problems in words, for messages and as keys: equal text, equal problem.
#pragma once

#include <string>

#include "kernels/cuda/libraries.h"

namespace act::cuda {

std::string TextOf(const ConvolutionProblem& problem);
std::string TextOf(const ProductProblem& problem);

}  // namespace act::cuda
