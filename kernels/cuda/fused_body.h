// The body of a fused loop's kernel, as text: fused_text.h.
#pragma once

#include <string>

#include "kernels/cuda/fused_plan.h"

namespace act::cuda {

std::string FusedBody(const CudaLoop& loop);

}  // namespace act::cuda
