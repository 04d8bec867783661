// An update of a parameter whose optimizer state is in bfloat16 or in 8 bits.
#pragma once

#include <string>
#include <vector>

#include "kernels/math/convert.h"
#include "runtime/codec/dynamic_map.h"
#include "tests/unit/kernel_testing.h"

namespace act {

// "QuantizedMomentum", "QuantizedAdam" or "QuantizedLamb". Operands: gradient, scalars, clipping factor,
// parameter, and each state in bfloat16 or as codes and maxima.
struct QuantizedUpdate {
  std::string op = "QuantizedAdam";
  bool coded = true;
  bool decoupled = true;

  size_t scalars() const { return op == "QuantizedMomentum" ? 5 : 7; }
  size_t states() const { return op == "QuantizedMomentum" ? 1 : 2; }
  bool makes_direction() const { return op == "QuantizedLamb"; }
  size_t clip() const { return scalars() + 1; }
  size_t parameter() const { return scalars() + 2; }
  size_t state(size_t i) const { return parameter() + 1 + (coded ? 2 * i : i); }
  std::string Name() const {
    return op + (coded ? ", 8 bits" : ", bfloat16") + (decoupled ? ", decoupled" : "");
  }

  OpCase Case(int64_t elements, unsigned seed) const {
    OpCase c;
    c.op = op;
    c.attrs.Set("decoupled", int64_t{decoupled});
    c.attrs.Set("stream", int64_t{5});
    c.inputs.push_back(Random({elements}, seed));
    // Momentum: lr, momentum, weight decay, the parts of the velocity and of the gradient in a step.
    // Others: lr / bias, 1 - beta1, beta2, 1 - beta2, 1 / sqrt(bias), eps, decay.
    const std::vector<float> numbers =
        op == "QuantizedMomentum"
            ? std::vector<float>{.01f, .9f, .1f, .8f, .3f}
            : std::vector<float>{.01f, .1f, .99f, .01f, 1.5f, 1e-4f, decoupled ? .999f : .1f};
    for (const float number : numbers) c.inputs.push_back(Floats({}, {number}));
    c.inputs.push_back(Floats({}, {.5f}));
    c.inputs.push_back(Random({elements}, seed + 1));
    for (size_t i = 0; i < states(); ++i) AddState(c, elements, i);
    if (makes_direction()) c.outputs.push_back(Empty({elements}));
    for (size_t i = parameter() + makes_direction(); i < c.inputs.size(); ++i)
      c.mutates.push_back(static_cast<int32_t>(i));
    return c;
  }

  // Element e of state i of the tensors that a case has before, or after, it is run.
  float State(const std::vector<TestTensor>& inputs, size_t i, int64_t e) const {
    const TestTensor& tensor = inputs[state(i)];
    if (!coded) return ToFloat(tensor.as<BFloat16>()[e]);
    const DynamicMap& map = i == 0 ? kSignedMap : kUnsignedMap;
    return map[tensor.as<uint8_t>()[e]] * inputs[state(i) + 1].as<float>()[e / kMomentBlock];
  }

 private:
  void AddState(OpCase& c, int64_t elements, size_t i) const {
    const int64_t blocks = (elements + kMomentBlock - 1) / kMomentBlock;
    const float most = i == 0 ? .7f : .3f;
    TestTensor state = Empty({elements}, coded ? DType::kUint8 : DType::kBFloat16);
    for (int64_t e = 0; e < elements; ++e) {
      const auto code = static_cast<uint8_t>(e * 37 % 255);
      if (coded)
        state.as<uint8_t>()[e] = code;
      else
        state.as<BFloat16>()[e] = FromFloat<BFloat16>(most * (i == 0 ? kSignedMap : kUnsignedMap)[code]);
    }
    c.inputs.push_back(state);
    if (coded) c.inputs.push_back(Floats({blocks}, std::vector<float>(static_cast<size_t>(blocks), most)));
  }
};

inline std::vector<QuantizedUpdate> AllQuantizedUpdates() {
  std::vector<QuantizedUpdate> all;
  for (const bool coded : {false, true}) {
    all.push_back({"QuantizedMomentum", coded, false});
    all.push_back({"QuantizedAdam", coded, false});
    all.push_back({"QuantizedAdam", coded, true});
    all.push_back({"QuantizedLamb", coded, false});
  }
  return all;
}

}  // namespace act
