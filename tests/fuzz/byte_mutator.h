// Changes of bytes that know nothing of their meaning, for the driver of standalone.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace act::fuzz {

using Bytes = std::vector<uint8_t>;

// Makes one change of `input`, which then has at most max_size bytes. `other` is another input, from
// which parts may be taken.
void MutateBytes(Bytes& input, std::span<const uint8_t> other, size_t max_size, std::mt19937_64& random);

}  // namespace act::fuzz
