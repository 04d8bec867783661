// Shared memory that packing takes, for the host and the device.
#pragma once

#include "kernels/math/host_device.h"

namespace act {

// Bytes for a warp that packs several codes to a number, in groups of this size (packing.h, `stage`).
ACT_HOST_DEVICE constexpr int StageBytes(int group) { return 2 * group + 128; }

}  // namespace act
