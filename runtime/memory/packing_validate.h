// The check of a packing, independent of the solver: it shares no code with it and runs in release builds
// too, since a wrong offset corrupts memory silently.
#pragma once

#include <optional>
#include <string>

#include "runtime/memory/packing.h"

namespace act {

// nullopt if the packing is valid: one aligned, non-negative offset per buffer, no two buffers that share a
// byte at an op (sizes rounded up to the alignment), and a height that is exactly what the buffers need.
// Otherwise what is wrong, with the buffers, ops and bytes concerned. O(n log n).
std::optional<std::string> ValidatePacking(const PackingProblem& problem, const Packing& packing);

}  // namespace act
