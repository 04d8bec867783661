// Which of the processor's instructions kernels use. The environment variable ONEDNN_MAX_CPU_ISA limits
// those of oneDNN; our own kernels keep the same limit. So one variable lets a processor play one that
// has less.
#pragma once

#include <dnnl.hpp>

namespace act {

// Whether the processor, and the limit, have all instructions of this set.
bool HasIsa(dnnl::cpu_isa isa);
// AVX512_BF16's products and conversions.
bool UsesBFloat16Instructions();

// Takes instruction sets above the limit from Highway's choice. To be called before kernels run.
void LimitHighway();

}  // namespace act
