// Checks a packing. The check shares no code with the solver and runs in release builds too, since
// a wrong offset corrupts memory silently.
#pragma once

#include <optional>
#include <string>

#include "runtime/memory/packing.h"

namespace act {

// Nullopt if the packing is valid: one aligned, non-negative offset per buffer, no two buffers that
// share a byte at an op (sizes rounded up to the alignment), and exactly the height that the
// buffers need. Otherwise says what is wrong, with the buffers, ops and bytes concerned. O(n log
// n).
std::optional<std::string> ValidatePacking(const PackingProblem& problem, const Packing& packing);

}  // namespace act
