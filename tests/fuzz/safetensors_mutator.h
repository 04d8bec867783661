// Changes of safetensors files that keep their frame: the length before the header fits it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace act::fuzz {

// As LLVMFuzzerCustomMutator.
size_t MutateSafetensors(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

}  // namespace act::fuzz
