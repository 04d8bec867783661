// The map of 8-bit optimizer state, against its definition and by many draws.
#include "runtime/codec/dynamic_map.h"

#include <gtest/gtest.h>

#include <cmath>

namespace act {
namespace {

TEST(DynamicMap, GrowsFromEndToEnd) {
  for (const DynamicMap* map : {&kSignedMap, &kUnsignedMap}) {
    EXPECT_EQ((*map)[map->zero()], 0);
    EXPECT_EQ((*map)[map->size() - 1], 1);
    for (int i = 0; i + 1 < map->size(); ++i) EXPECT_LT((*map)[i], (*map)[i + 1]) << i;
  }
  EXPECT_EQ(kSignedMap[0], -1);
  EXPECT_EQ(kSignedMap.size(), 255);
  EXPECT_EQ(kUnsignedMap[0], 0);
  EXPECT_EQ(kUnsignedMap.size(), 255);
}

TEST(DynamicMap, RoundsToANeighbourAndWithoutBias) {
  for (const DynamicMap* map : {&kSignedMap, &kUnsignedMap}) {
    for (const float x : {-1.f, -.7312f, -3.3e-4f, -1e-8f, 0.f, 2e-7f, 5e-5f, .01234f, .5f, .995f, 1.f}) {
      if (x < (*map)[0]) continue;
      int above = 1;
      while ((*map)[above] < x) ++above;
      const double gap = static_cast<double>((*map)[above]) - (*map)[above - 1];
      double sum = 0;
      for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float rounded = (*map)[map->Round(x, bits)];
        ASSERT_LE(std::abs(static_cast<double>(rounded) - x), gap) << x;
        sum += rounded;
      }
      // All 2^16 draws once: the mean is off by the grid of the draws, half of gap / 2^16, and by the float32
      // rounding of u * gap.
      EXPECT_NEAR(sum / 0x10000, x, gap * 0x1p-15) << x;
    }
  }
}

}  // namespace
}  // namespace act
