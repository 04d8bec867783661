// The sizes of the tiles in tile_product.h, for the host and the device.
#pragma once

#include <cstdint>

namespace act::cuda {

inline constexpr int32_t kTile = 64, kTileDepth = 16;
// Sums of so many products are added to the total: the error of a long sum grows with the root of either
// length.
inline constexpr int32_t kSumLength = 512;

}  // namespace act::cuda
