// Convolutions by cuDNN's backend interface. Engines are chosen by a card's properties, so no card is needed
// for that.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/libraries.h"
#include "kernels/nvidia/card.h"
#include "kernels/nvidia/driver.h"

namespace act::cuda {

// For the card of a context.
std::unique_ptr<ConvolutionLibrary> OpenCudnn(const CardContext& context, const Card& card, Status* error);

// For a card that is described. Enqueue fails.
std::unique_ptr<ConvolutionLibrary> OpenCudnn(const CardDescription& description, Status* error);

}  // namespace act::cuda
