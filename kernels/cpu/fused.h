// The fast kernel of fused loops; see docs/fused_loops.md.
#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/run_code.h"
#include "runtime/executor/kernel.h"

namespace act {

// Nullptr, with the reason in *why, if the node is not taken. Steps become compiled runs (compiled_run.h) of these
// instructions. With kNone each step is a loop of its own, with the same bits in all results.
std::unique_ptr<Kernel> CreateFused(const KernelSite& site, RunIsa isa, std::string* why);

// Appends the vectorised kernel of `Fused`.
void RegisterFusedKernels(KernelRegistry& registry);

}  // namespace act
