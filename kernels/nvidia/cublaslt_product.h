// Matrix products by cuBLASLt.
#pragma once

#include <memory>

#include "kernels/cuda/libraries.h"
#include "kernels/nvidia/driver.h"

namespace act::cuda {

// For the card of a context.
std::unique_ptr<ProductLibrary> OpenCublasLt(const CardContext& context, Status* error);

// For a card that is described. cuBLASLt does not start without a card, so an engine is only chosen on one:
// here a product has the limit itself for its workspace, and Enqueue fails.
std::unique_ptr<ProductLibrary> DescribedProducts();

}  // namespace act::cuda
