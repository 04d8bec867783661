#include "kernels/cpu/instructions.h"

#include "hwy/highway.h"

namespace act {

bool HasIsa(dnnl::cpu_isa isa) {
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

#if HWY_ARCH_X86_64
bool UsesBFloat16Instructions() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16") &&
         HasIsa(dnnl::cpu_isa::avx512_core_bf16);
}

void LimitHighway() {
  // The lower the bit of a target, the better it is.
  if (!HasIsa(dnnl::cpu_isa::avx2)) {
    hwy::DisableTargets(2 * HWY_AVX2 - 1);
  } else if (!HasIsa(dnnl::cpu_isa::avx512_core)) {
    hwy::DisableTargets(HWY_AVX2 - 1);
  }
}
#else
bool UsesBFloat16Instructions() { return false; }
void LimitHighway() {}
#endif

}  // namespace act
