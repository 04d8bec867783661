// The limit of ONEDNN_MAX_CPU_ISA. CTest runs this without it, and with AVX2, AVX512_CORE and SSE41.
#include "kernels/cpu/instructions.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "hwy/highway.h"
#include "hwy/targets.h"
#include "kernels/cpu/registry.h"

namespace act {
namespace {

#if HWY_ARCH_X86_64
TEST(Instructions, AreLimitedAsThoseOfOneDnn) {
  const char* variable = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string limit = variable ? variable : "";
  const int64_t before = hwy::SupportedTargets();
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  const int64_t after = hwy::SupportedTargets();

  const bool avx2 = limit != "SSE41", avx512 = avx2 && limit != "AVX2", bf16 = avx512 && limit != "AVX512_CORE";
  EXPECT_EQ((after & HWY_AVX2) != 0, avx2 && (before & HWY_AVX2) != 0);
  EXPECT_EQ((after & HWY_AVX3) != 0, avx512 && (before & HWY_AVX3) != 0);
  EXPECT_EQ(UsesBFloat16Instructions(), bf16 && __builtin_cpu_supports("avx512bf16") != 0);
}
#endif

}  // namespace
}  // namespace act
