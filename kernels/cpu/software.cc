#include "kernels/cpu/software.h"

#include <dnnl.hpp>

#include <utility>

namespace act {
namespace {

using dnnl::cpu_isa;

// The number of instructions that this list does not have.
std::string NameOf(cpu_isa instructions) {
  static constexpr std::pair<cpu_isa, const char*> kNames[] = {
      {cpu_isa::sse41, "sse41"},
      {cpu_isa::avx, "avx"},
      {cpu_isa::avx2, "avx2"},
      {cpu_isa::avx2_vnni, "avx2_vnni"},
      {cpu_isa::avx2_vnni_2, "avx2_vnni_2"},
      {cpu_isa::avx512_core, "avx512_core"},
      {cpu_isa::avx512_core_vnni, "avx512_core_vnni"},
      {cpu_isa::avx512_core_bf16, "avx512_core_bf16"},
      {cpu_isa::avx512_core_fp16, "avx512_core_fp16"},
      {cpu_isa::avx512_core_amx, "avx512_core_amx"},
      {cpu_isa::avx512_core_amx_fp16, "avx512_core_amx_fp16"},
  };
  for (const auto& [isa, name] : kNames)
    if (isa == instructions) return name;
  return "isa " + std::to_string(static_cast<unsigned>(instructions));
}

}  // namespace

std::string CpuSoftware() {
  const dnnl_version_t& version = *dnnl_version();
  return "oneDNN " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch) + " " + NameOf(dnnl::get_effective_cpu_isa());
}

}  // namespace act
