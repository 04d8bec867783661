// The gradient of attention on a card.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/context.h"

namespace act::cuda {

// Null, with the reason in *why, if it does not take the site, or if the workspace does not hold what one head of keys
// needs.
std::unique_ptr<Kernel> CreateAttentionGrad(const CudaContext& context, const KernelSite& site,
                                            std::string* why);

}  // namespace act::cuda
