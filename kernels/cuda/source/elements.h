// Elements in memory, as floats.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/math/convert.h"

namespace act {

template <class T>
ACT_DEVICE float LoadFloat(const T* from) {
  return ToFloat(Load(from));
}
ACT_DEVICE float LoadFloat(const BFloat16* from) {
  return ToFloat(BFloat16{Load(reinterpret_cast<const uint16_t*>(from))});
}
ACT_DEVICE float LoadFloat(const Bool* from) {
  return ToFloat(Bool{Load(reinterpret_cast<const uint8_t*>(from))});
}
template <class T>
ACT_DEVICE void StoreFloat(T* to, float x) {
  Store(to, FromFloat<T>(x));
}
ACT_DEVICE void StoreFloat(BFloat16* to, float x) {
  Store(reinterpret_cast<uint16_t*>(to), FromFloat<BFloat16>(x).bits);
}
ACT_DEVICE void StoreFloat(Bool* to, float x) {
  Store(reinterpret_cast<uint8_t*>(to), FromFloat<Bool>(x).byte);
}

// x as an element of type T has it: a float32 factor beside one of type T.
template <class T>
ACT_DEVICE float RoundedTo(float x) {
  return ToFloat(FromFloat<T>(x));
}

}  // namespace act
