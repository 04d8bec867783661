// Elementary functions of fused loops: kernels/cpu/fused_math-inl.h an element at a time, with the same
// operations in the same order. So results are those of a processor with fused multiply-add, to the bit.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/cuda/source/trigonometry.h"
#include "kernels/math/bfloat16.h"

namespace act {

// x clamped to [low, high]. A NaN stays NaN.
ACT_DEVICE float Clamp(float low, float x, float high) { return x < low ? low : x > high ? high : x; }

template <int kCount>
ACT_DEVICE float Polynomial(float x, const float (&coefficients)[kCount]) {
  float y = coefficients[kCount - 1];
#pragma unroll
  for (int i = kCount - 2; i >= 0; --i) y = MulAdd(y, x, coefficients[i]);
  return y;
}

// y * 2^n for an integer n of magnitude at most 150, in two steps: 2^n itself may lie outside the range.
ACT_DEVICE float TimesPowerOfTwo(float y, int32_t n) {
  const int32_t half = n >> 1;
  const auto power = [](int32_t k) { return FloatOf(static_cast<uint32_t>(k + 127) << 23); };
  return y * power(half) * power(n - half);
}

ACT_DEVICE float Exponential(float x) {
  constexpr float kPolynomial[] = {
      1.0f, 1.0f, 4.999999404e-01f, 1.666652113e-01f, 4.166838899e-02f, 8.368745446e-03f, 1.381453942e-03f};
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it removes the fraction
  const float bounded = Clamp(-104.0f, x, 89.0f);
  const float n = MulAdd(bounded, 1.44269504f, kRound) - kRound;
  float r = MulAdd(-n, 0.693359375f, bounded);
  r = MulAdd(-n, -2.12194440e-4f, r);
  const float y = Polynomial(r, kPolynomial);
  return x == x ? TimesPowerOfTwo(y, static_cast<int32_t>(x == x ? n : 0.0f)) : x;
}

ACT_DEVICE float Sigmoid(float x) {
  const float e = Exponential(-fabsf(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

ACT_DEVICE float HyperbolicTangent(float x) {
  constexpr float kAbove[] = {9.913619161e-01f, 1.356174797e-01f, 3.834913718e-03f,
                              2.776554902e-05f, 3.032087648e-08f, -1.209808729e-11f};
  constexpr float kBelow[] = {9.913619161e-01f, 4.660714269e-01f, 2.701049112e-02f, 3.904610639e-04f,
                              1.276247758e-06f};
  const float bounded = Clamp(-9.02f, x, 9.02f), square = bounded * bounded;
  return Clamp(-1.0f, bounded * (Polynomial(square, kAbove) / Polynomial(square, kBelow)), 1.0f);
}

ACT_DEVICE float ErrorFunction(float x) {
  constexpr float kAbove[] = {8.032988906e-01f, 1.355308443e-01f, 3.754985705e-02f,
                              2.680007834e-03f, 2.028146118e-04f, 1.459922601e-06f};
  constexpr float kBelow[] = {7.119051218e-01f, 3.574123681e-01f, 8.122682571e-02f,
                              1.065514237e-02f, 8.274726570e-04f, 2.712264904e-05f};
  const float bounded = Clamp(-3.9192f, x, 3.9192f), square = bounded * bounded;
  return Clamp(-1.0f, bounded * Polynomial(square, kAbove) / Polynomial(square, kBelow), 1.0f);
}

// ---- Opcode::kMax and kMin: a NaN in a or b gives NaN. Relu and sided values, of kernels/loops/tile_op.h.

ACT_DEVICE float Largest(float a, float b) { return a != a ? a : b < a ? a : b; }
ACT_DEVICE float Smallest(float a, float b) { return a != a ? a : a < b ? a : b; }
ACT_DEVICE float Relu(float x) { return x < 0 ? 0.0f : x; }
ACT_DEVICE float Sided(float x, float side, float least) {
  const float v = x < least ? least : x;
  return side > 0 ? v : -v;
}

}  // namespace act
