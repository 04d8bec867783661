// Updates whose optimizer state lives in bfloat16 or 8 bits: SGD with momentum, Adam, AdamW, and the direction of LAMB.
// An element's arithmetic, in float32, and how its state is rounded again.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/bfloat16.h"
#include "kernels/math/host_device.h"

namespace act {

// Elements of a state with one maximum (runtime/codec/dynamic_map.h).
inline constexpr int64_t kMomentBlock = 256;

// What an operator's scalars are:
//   QuantizedMomentum  lr, momentum, weight_decay, velocity_part, gradient_part
//   QuantizedAdam      lr_over_bias1, one_minus_beta1, beta2, one_minus_beta2, rsqrt_bias2, eps, decay
//   QuantizedLamb      inverse_bias1, one_minus_beta1, beta2, one_minus_beta2, rsqrt_bias2, eps, weight_decay
struct MomentScalars {
  float of[7] = {};
  float clip = 1;
  bool decoupled = false;  // AdamW
};

// first, second: of the state. All are updated in place.
struct MomentElement {
  float gradient = 0, parameter = 0, first = 0, second = 0;
  float direction = 0;
};

ACT_HOST_DEVICE inline void UpdateByMomentum(const MomentScalars& s, MomentElement& e) {
  const float lr = s.of[0], momentum = s.of[1], decay = s.of[2], velocity_part = s.of[3],
              gradient_part = s.of[4];
  const float g = decay * e.parameter + s.clip * e.gradient;
  e.first = momentum * e.first + g;
  e.parameter -= lr * (velocity_part * e.first + gradient_part * g);
}

ACT_HOST_DEVICE inline void NextMoments(const MomentScalars& s, float g, MomentElement& e) {
  e.first += s.of[1] * (g - e.first);
  e.second = s.of[2] * e.second + s.of[3] * (g * g);
}

ACT_HOST_DEVICE inline void UpdateByAdam(const MomentScalars& s, MomentElement& e) {
  const float rate = s.of[0], rsqrt_bias2 = s.of[4], eps = s.of[5], decay = s.of[6];
  float g = s.clip * e.gradient;
  if (s.decoupled)
    e.parameter *= decay;
  else
    g += decay * e.parameter;
  NextMoments(s, g, e);
  e.parameter -= rate * e.first / (rsqrt_bias2 * sqrtf(e.second) + eps);
}

ACT_HOST_DEVICE inline void DirectionByLamb(const MomentScalars& s, MomentElement& e) {
  const float inverse_bias1 = s.of[0], rsqrt_bias2 = s.of[4], eps = s.of[5], decay = s.of[6];
  NextMoments(s, s.clip * e.gradient, e);
  const float adam = inverse_bias1 * e.first / (rsqrt_bias2 * sqrtf(e.second) + eps);
  e.direction = decay * e.parameter + adam;
}

// ---- Rounding, by 16 uniform bits. It is unbiased: where a running mean moves by less than half the gap between two
// numbers of its form, rounding to nearest would hold it in place.

// x is finite. It lies between two bfloat16 whose bits are its upper half and that plus 1. The lower half is its
// distance from the first, as a part of 2^16.
ACT_HOST_DEVICE inline uint16_t MomentInBFloat16(float x, uint32_t bits) {
  return static_cast<uint16_t>((BitsOf(x) + bits) >> 16);
}

// The number of a sorted table of `size` below x or the one above, with probabilities that make the expectation x, which
// lies between the table's ends.
ACT_HOST_DEVICE constexpr int MomentCode(const float* table, int size, float x, uint32_t bits) {
  int low = 0;
  for (int step = 128; step > 0; step /= 2) {
    const int next = low + step;
    if (next < size - 1 && table[next] <= x) low = next;
  }
  const float below = table[low], gap = table[low + 1] - below;
  const float u = (static_cast<float>(bits) + .5f) * 0x1p-16f;
  return (x - below) > u * gap ? low + 1 : low;
}

}  // namespace act
