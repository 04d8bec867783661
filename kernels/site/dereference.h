// Access to the bytes behind a device's pointers: for kernels, and for implementations of Device.
#pragma once

#include "runtime/executor/kernel.h"

namespace act {

template <class T>
auto DevicePointer::as() const {
  return static_cast<T*>(static_cast<void*>(address_));
}

template <class T>
auto TensorView::as() const {
  return data.as<T>();
}

}  // namespace act
