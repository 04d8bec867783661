// Undamaged plans, compiled when they are first asked for: of the cases of tests/compiler/op_cases.h, each
// a model of one operator or few, of the small models of tests/golden, and of one with codes of frozen weights.
#pragma once

#include <cstddef>

#include "runtime/plan/plan.h"
#include "tests/fuzz/byte_reader.h"

namespace act::fuzz {

// A plan that the next four bytes choose, or null if its model does not compile in that way.
const Plan* NextSeed(ByteReader& bytes);

size_t SeedModels();

}  // namespace act::fuzz
