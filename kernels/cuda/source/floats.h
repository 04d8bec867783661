// A few channels of a pixel, float32 or bfloat16, which a thread loads and stores with one instruction.
#pragma once

#include "kernels/cuda/source/elements.h"

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

template <class T>
ACT_DEVICE void LoadFloats(const T* from, Floats<1>& x) {
  x.at[0] = LoadFloat(from);
}
ACT_DEVICE void LoadFloats(const float* from, Floats<4>& x) {
  const float4 v = Load(reinterpret_cast<const float4*>(from));
  x.at[0] = v.x, x.at[1] = v.y, x.at[2] = v.z, x.at[3] = v.w;
}
ACT_DEVICE void LoadFloats(const BFloat16* from, Floats<4>& x) {
  const uint2 v = Load(reinterpret_cast<const uint2*>(from));
  x.at[0] = FromBits(v.x << 16), x.at[1] = FromBits(v.x & 0xffff0000u);
  x.at[2] = FromBits(v.y << 16), x.at[3] = FromBits(v.y & 0xffff0000u);
}

template <class T>
ACT_DEVICE void StoreFloats(T* to, const Floats<1>& x) {
  StoreFloat(to, x.at[0]);
}
ACT_DEVICE void StoreFloats(float* to, const Floats<4>& x) {
  Store(reinterpret_cast<float4*>(to), float4{x.at[0], x.at[1], x.at[2], x.at[3]});
}
ACT_DEVICE void StoreFloats(BFloat16* to, const Floats<4>& x) {
  const auto pair = [](float low, float high) {
    return FromFloat<BFloat16>(low).bits | static_cast<uint32_t>(FromFloat<BFloat16>(high).bits) << 16;
  };
  Store(reinterpret_cast<uint2*>(to), uint2{pair(x.at[0], x.at[1]), pair(x.at[2], x.at[3])});
}

}  // namespace act::cuda
