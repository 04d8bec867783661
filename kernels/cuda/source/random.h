// Random numbers of a step: those of the processor, bit by bit.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/cuda/source/random_parameters.h"
#include "kernels/math/random.h"
#include "kernels/math/random_number.h"

namespace act::cuda {

// A thread uses all words of its calls, whose elements are 16 apart. A normal number takes the words of two elements.
template <bool kNormal>
ACT_DEVICE void Random(const RandomParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  const RandomStream stream{Load(&p.step->seed), Load(&p.step->step), p.stream};
  const int64_t call = int64_t{i} * (kNormal ? 2 : 1);
  const RandomWords words = RandomCall(stream, static_cast<uint64_t>(call));
  RandomWords turns = {};
  if constexpr (kNormal) turns = RandomCall(stream, static_cast<uint64_t>(call) + 1);
#pragma unroll
  for (int w = 0; w < kNumbersOfThread; ++w) {
    const int64_t element = ElementOfWord32(call, w) / (kNormal ? 2 : 1);
    if (element >= p.count) continue;
    const double z = kNormal ? NormalNumber(words.word[w], turns.word[w]) : UniformNumber(words.word[w]);
    Store(p.y + element, static_cast<float>(p.offset + p.scale * z));
  }
}

}  // namespace act::cuda
