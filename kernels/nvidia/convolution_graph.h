// A convolution, or one of its gradients, as a graph of cuDNN.
#pragma once

#include "kernels/cuda/libraries.h"
#include "kernels/nvidia/cudnn_descriptor.h"

namespace act::cuda {

// The ids of tensors x, w, y in the graph.
inline constexpr int64_t kConvolutionTensors[] = {1, 2, 3};

// Finished unless its error() is set: then cuDNN does not know such a convolution.
Descriptor ConvolutionGraph(const ConvolutionProblem& problem);

}  // namespace act::cuda
