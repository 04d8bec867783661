// Bit planes, a vector of elements at a time. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_BIT_PLANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_BIT_PLANES_INL_H_
#undef ACT_BIT_PLANES_INL_H_
#else
#define ACT_BIT_PLANES_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "runtime/plan/program.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = HWY_CAPPED(float, 16);
using DI = hn::Rebind<int32_t, D>;
using DU = hn::Rebind<uint32_t, D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;
using Mask = hn::Mask<D>;
// Codes are handled as 16-bit numbers, two vectors of floats at a time (one vector if it has a
// single lane).
using DW = HWY_CAPPED(uint16_t, 32);
using VW = hn::Vec<DW>;

inline constexpr size_t kMaxLanes = hn::MaxLanes(D());
inline constexpr size_t kMaxWordLanes = hn::MaxLanes(DW());
// Bytes of a bit plane that one vector covers: at least one.
inline constexpr size_t kMaskBytes = std::max<size_t>(1, kMaxLanes / 8);
// The length of the runs of elements. Every vector length divides it.
inline constexpr size_t kRun = 64;
// Codes as bytes.
using DB = HWY_CAPPED(uint8_t, kRun);
using VB = hn::Vec<DB>;

// Bits i .. i + lanes - 1 of a plane.
HWY_INLINE hn::Mask<DW> LoadMask(const uint8_t* plane, size_t i) {
  uint8_t bits[8] = {};
  std::memcpy(bits, plane + i / 8, std::max<size_t>(1, kMaxWordLanes / 8));
  if constexpr (kMaxWordLanes < 8) bits[0] = static_cast<uint8_t>(bits[0] >> (i % 8));
  return hn::LoadMaskBits(DW(), bits);
}

// A copy of the planes of a sample's last group, one after the other, which can be read a vector at
// a time.
struct PaddedPlanes {
  static constexpr size_t kPlaneBytes = 128;
  uint8_t bytes[8 * kPlaneBytes + 8];
  PaddedPlanes(const uint8_t* planes, size_t plane_bytes, int bits) {
    for (int b = 0; b < bits; ++b)
      std::memcpy(bytes + kPlaneBytes * static_cast<size_t>(b), planes + static_cast<size_t>(b) * plane_bytes,
                  plane_bytes);
  }
};

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_BIT_PLANES_INL_H_
