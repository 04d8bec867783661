// The device that tests run plans on where no other is the subject.
#pragma once

#include "kernels/cpu/cpu_device.h"

namespace act {

inline CpuDevice& TestDevice() {
  static CpuDevice device;
  return device;
}

}  // namespace act
