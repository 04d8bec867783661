// The samples with which codes and random numbers begin anew: those of the batch or, where these are long, their
// tokens. So a token's part of a long sample's code is a slice of memory, and a loop may run for some tokens of it
// (runtime/plan/token_loops.h).
#pragma once

#include "runtime/codec/codec.h"

namespace act {

// A sample [T,..] of so many tokens T, of so many elements each, counts as T samples. Each begins at a multiple of
// 16 bytes and with a group of its own, which costs a token of 768 elements in 3 bits 4 bytes of 304. With fewer
// elements it would cost more, and fewer tokens take too little memory to be cut.
inline constexpr int64_t kLeastLongTokens = 2048, kLeastTokenElements = 512;

constexpr bool AreLong(int64_t tokens, int64_t elements_of_token) {
  return tokens >= kLeastLongTokens && elements_of_token >= kLeastTokenElements;
}

// As SamplesOf, but of a tensor with long samples: [N,T,..] is as [N T,..] then.
SampleShape CodeSamplesOf(const Dims& dims);

}  // namespace act
