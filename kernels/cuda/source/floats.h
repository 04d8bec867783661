// A few channels of a pixel, which a thread loads and stores with one instruction.
#pragma once

#include "kernels/cuda/source/device.h"

namespace act::cuda {

template <int kCount>
struct Floats;

template <>
struct Floats<1> {
  float at[1];
};
template <>
struct Floats<4> {
  float at[4];
};

ACT_DEVICE void LoadFloats(const float* from, Floats<1>& x) { x.at[0] = Load(from); }
ACT_DEVICE void LoadFloats(const float* from, Floats<4>& x) {
  const float4 v = Load(reinterpret_cast<const float4*>(from));
  x.at[0] = v.x, x.at[1] = v.y, x.at[2] = v.z, x.at[3] = v.w;
}

ACT_DEVICE void StoreFloats(float* to, const Floats<1>& x) { Store(to, x.at[0]); }
ACT_DEVICE void StoreFloats(float* to, const Floats<4>& x) {
  Store(reinterpret_cast<float4*>(to), float4{x.at[0], x.at[1], x.at[2], x.at[3]});
}

}  // namespace act::cuda
