// Device code of CudaDevice: adding partial sums of tiles, and looking at bytes of the arena.
#pragma once

#include "kernels/cuda/source/arena_parameters.h"
#include "kernels/cuda/source/device.h"

namespace act {

// sum[i] += part[i]
ACT_KERNEL(add_floats, 256, AddParameters, p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < p.count) Store(p.sum + i, Load(p.sum + i) + Load(p.part + i));
}

// The sum over all bytes of a number that depends on the byte and its place, so that the order of the
// sum does not matter. Multipliers: splitmix64 (Steele, Lea, Flood 2014).
ACT_KERNEL(hash_bytes, 256, LookParameters, p) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  uint64_t sum = 0;
  for (int64_t i = thread; i < p.bytes; i += threads) {
    uint64_t x = (static_cast<uint64_t>(i) << 8 | Load(p.from + i)) + 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    sum += x ^ x >> 31;
  }
  Store(p.results + thread, sum);
}

// The place of the first byte that is not `value`, among those that a thread looks at.
ACT_KERNEL(find_other, 256, LookParameters, p) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  int64_t found = p.bytes;
  for (int64_t i = thread; i < p.bytes && found == p.bytes; i += threads)
    if (Load(p.from + i) != p.value) found = i;
  Store(p.results + thread, static_cast<uint64_t>(found));
}

}  // namespace act
