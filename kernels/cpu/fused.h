// The fast kernel of fused loops; see docs/fused_loops.md.
#pragma once

#include <memory>
#include <string>

#include "runtime/executor/kernel.h"

namespace act {

// Nullptr, with the reason in *why, if the node is not taken. in_runs: steps become compiled runs where they can
// (compiled_run.h). Without, each step is a loop of its own, with the same bits in all results.
std::unique_ptr<Kernel> CreateFused(const KernelSite& site, bool in_runs, std::string* why);

// Appends the vectorised kernel of `Fused`.
void RegisterFusedKernels(KernelRegistry& registry);

}  // namespace act
