// An update of a parameter with moments of 8 bits.
#pragma once

#include "runtime/codec/dynamic_map.h"
#include "tests/unit/kernel_testing.h"

namespace act {

inline OpCase QuantizedAdamCase(int64_t elements, unsigned seed, bool decoupled = true) {
  const int64_t blocks = (elements + kMomentBlock - 1) / kMomentBlock;
  OpCase c;
  c.op = "QuantizedAdam";
  c.attrs.Set("decoupled", int64_t{decoupled});
  c.attrs.Set("stream", int64_t{5});
  c.inputs.push_back(Random({elements}, seed));
  // lr / bias, 1 - beta1, beta2, 1 - beta2, 1 / sqrt(bias), eps, decay, clipping factor
  for (const float scalar : {.01f, .1f, .99f, .01f, 1.5f, 1e-4f, decoupled ? .999f : .1f, .5f})
    c.inputs.push_back(Floats({}, {scalar}));
  c.inputs.push_back(Random({elements}, seed + 1));
  for (int moment = 0; moment < 2; ++moment) {
    TestTensor codes = Empty({elements}, DType::kUint8);
    for (int64_t i = 0; i < elements; ++i) codes.as<uint8_t>()[i] = static_cast<uint8_t>(i * 37 % 255);
    c.inputs.push_back(codes);
    c.inputs.push_back(Floats({blocks}, std::vector<float>(static_cast<size_t>(blocks), moment ? .3f : .7f)));
  }
  c.mutates = {9, 10, 11, 12, 13};
  return c;
}

}  // namespace act
