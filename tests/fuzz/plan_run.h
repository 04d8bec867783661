// Does with a plan all that actrun does on the processor: writes and reads its file, lays it out, binds
// kernels and runs a step. Errors end that without a word.
#pragma once

#include "runtime/plan/plan.h"
#include "tests/fuzz/byte_reader.h"

namespace act::fuzz {

// Plans whose arenas take more at the batch size are not run.
inline constexpr int64_t kMostArenaBytes = int64_t{4} << 20;

// `bytes` decide the batch sizes and the inputs' numbers.
void RunPlan(const Plan& plan, ByteReader& bytes);

}  // namespace act::fuzz
