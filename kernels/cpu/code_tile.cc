#include "kernels/cpu/code_tile.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/highway_targets.h"
#include "kernels/math/small_code.h"
#include "kernels/math/uniform_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/code_tile.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "kernels/cpu/random-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = HWY_CAPPED(float, 16);
using DI = hn::Rebind<int32_t, D>;
using DU = hn::Rebind<uint32_t, D>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;

constexpr size_t kMaxLanes = hn::MaxLanes(D());
// What one vector takes of a bit plane: at least a byte.
constexpr size_t kMaskBytes = std::max<size_t>(1, kMaxLanes / 8);
// Where elements are handled in runs that every vector length divides.
constexpr size_t kRun = 64;

HWY_INLINE Mask LoadMask(const uint8_t* plane, size_t i) {
  uint8_t bits[8] = {};
  std::memcpy(bits, plane + i / 8, kMaskBytes);
  if constexpr (kMaxLanes < 8) bits[0] = static_cast<uint8_t>(bits[0] >> (i % 8));
  return hn::LoadMaskBits(D(), bits);
}

// ---- Bit planes
// -------------------------------------------------------------------------------------------------------

// Bytes q[i] < 2^bits to `bits` planes of ceil(count / 8) bytes. q is readable, and 0, up to a multiple of
// kRun.
void PackPlanes(const uint8_t* q, size_t count, int bits, uint8_t* planes) {
  const HWY_CAPPED(uint8_t, kRun) d8;
  const size_t plane_bytes = (count + 7) / 8;
  if constexpr (hn::MaxLanes(d8) < 8) {
    std::memset(planes, 0, static_cast<size_t>(bits) * plane_bytes);
    for (size_t i = 0; i < count; ++i)
      for (size_t b = 0; b < static_cast<size_t>(bits); ++b)
        planes[b * plane_bytes + i / 8] |= static_cast<uint8_t>((q[i] >> b & 1) << (i % 8));
    return;
  }
  const size_t lanes = hn::Lanes(d8);
  for (size_t i = 0; i < count; i += lanes) {
    const auto v = hn::LoadU(d8, q + i);
    for (int b = 0; b < bits; ++b) {
      uint8_t packed[8];
      hn::StoreMaskBits(d8, hn::TestBit(v, hn::Set(d8, static_cast<uint8_t>(1 << b))), packed);
      uint8_t* to = planes + static_cast<size_t>(b) * plane_bytes + i / 8;
      if (i + lanes <= count) {
        std::memcpy(to, packed, hn::MaxLanes(d8) / 8);
      } else {
        std::memcpy(to, packed, (count - i + 7) / 8);
      }
    }
  }
}

// The planes of a group that ends a sample, where they can be read a vector at a time: copied behind one
// another.
struct PaddedPlanes {
  uint8_t bytes[8 * 128 + 8];
  PaddedPlanes(const uint8_t* planes, size_t plane_bytes, int bits) {
    for (int b = 0; b < bits; ++b)
      std::memcpy(bytes + 128 * b, planes + static_cast<size_t>(b) * plane_bytes, plane_bytes);
  }
};

// ---- Masks and indices
// ------------------------------------------------------------------------------------------------

// Masks have no metadata and whole groups are whole bytes, so a sample's mask is one run of bits.
void EncodeMaskTile(const float* x, size_t count, uint8_t* bits) {
  const D d;
  size_t i = 0;
  if constexpr (kMaxLanes >= 8) {
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
      uint8_t packed[8];
      hn::StoreMaskBits(d, hn::Gt(hn::LoadU(d, x + i), hn::Zero(d)), packed);
      std::memcpy(bits + i / 8, packed, kMaskBytes);
    }
  }
  for (; i < count; i += 8) {
    uint32_t byte = 0;
    for (size_t j = i; j < std::min(i + 8, count); ++j) byte |= EncodeMask(x[j]) << (j - i);
    bits[i / 8] = static_cast<uint8_t>(byte);
  }
}

void EncodeIndexGroup(const float* x, size_t count, int bits, uint8_t* planes) {
  const D d;
  alignas(64) uint8_t q[kTileElements] = {};
  const V largest = hn::Set(d, static_cast<float>((1 << bits) - 1));
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const V v = hn::LoadU(d, x + i);
    const V clamped =
        hn::IfThenElseZero(hn::Gt(v, hn::Zero(d)), hn::IfThenElse(hn::Lt(v, largest), v, largest));
    const auto code = hn::U8FromU32(hn::BitCast(DU(), hn::ConvertTo(DI(), clamped)));
    hn::StoreU(code, hn::Rebind<uint8_t, D>(), q + i);
  }
  for (; i < count; ++i) q[i] = static_cast<uint8_t>(EncodeIndex(x[i], bits));
  PackPlanes(q, count, bits, planes);
}

// ---- Uniform codes
// ----------------------------------------------------------------------------------------------------

UniformScale ScaleOf(const float* x, size_t count, int bits) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  // Two of each, to hide the latency of the operations. bad is 0, or NaN where an element is infinite or NaN.
  V lowest[2] = {hn::Set(d, x[0]), hn::Set(d, x[0])}, highest[2] = {lowest[0], lowest[1]};
  V bad[2] = {hn::Zero(d), hn::Zero(d)};
  const auto take = [&](V v, size_t slot) HWY_ATTR {
    lowest[slot] = hn::Min(lowest[slot], v);
    highest[slot] = hn::Max(highest[slot], v);
    bad[slot] = hn::MulAdd(v, hn::Zero(d), bad[slot]);
  };
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    take(hn::LoadU(d, x + i), 0);
    take(hn::LoadU(d, x + i + lanes), 1);
  }
  for (; i < count; i += lanes) {
    const Mask rest = hn::FirstN(d, count - i);
    take(hn::IfThenElse(rest, hn::MaskedLoad(rest, d, x + i), hn::Set(d, x[0])), 0);
  }
  const float low = hn::GetLane(hn::MinOfLanes(d, hn::Min(lowest[0], lowest[1])));
  const float high = hn::GetLane(hn::MaxOfLanes(d, hn::Max(highest[0], highest[1])));
  const bool finite = hn::AllFalse(d, hn::IsNaN(hn::Add(bad[0], bad[1])));
  const uint32_t largest_bits = std::max(BitsOf(low) & 0x7FFFFFFFu, BitsOf(high) & 0x7FFFFFFFu);
  return MakeUniformScale(low, high, finite ? largest_bits : kUniformTooLargeBits, bits);
}

// To the nearest integer, for |v| < 2^31: without Highway's repair of what is out of range.
HWY_INLINE hn::Vec<DI> ToNearest(V v) {
#if HWY_TARGET == HWY_AVX3  // the plain form makes GCC 12 warn of the operand it leaves undefined
  return hn::Vec<DI>{_mm512_maskz_cvtps_epi32(0xFFFF, v.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Vec<DI>{_mm256_cvtps_epi32(v.raw)};
#else
  return hn::NearestInt(v);
#endif
}

// What QuantizeUniform needs, and where the codes go.
struct Quantizer {
  V minimum, steps;
  uint8_t* planes;
  size_t plane_bytes;
};

HWY_INLINE void StoreBits(const Mask& bits, uint8_t* plane, size_t i) {
  uint8_t packed[8];
  hn::StoreMaskBits(D(), bits, packed);
  if constexpr (kMaxLanes >= 8) {
    std::memcpy(plane + i / 8, packed, kMaskBytes);
  } else {
    const size_t shift = i % 8;
    plane[i / 8] = static_cast<uint8_t>((shift == 0 ? 0 : plane[i / 8]) | packed[0] << shift);
  }
}

// Codes of elements i + 16 kSubWord .. + 15; `words` are the kRandomLanes words that the run from i on shares
// (Random16).
template <int kBits, int kSubWord>
HWY_INLINE void QuantizeLanes(const float* x, const uint32_t* words, const Quantizer& to, size_t i) {
  const D d;
  const DU du;
  for (size_t lane = 0; lane < kRandomLanes; lane += hn::Lanes(d)) {
    const auto word = hn::LoadU(du, words + lane);
    const auto u16 = kSubWord == 2 ? hn::ShiftRight<16>(word)
                                   : hn::And(hn::RotateRight<8 * kSubWord>(word), hn::Set(du, 0xFFFFu));
    const size_t e = kRandomLanes * kSubWord + lane;
    const V v = hn::LoadU(d, x + e);
    // The code is the upper half of the sum, plane by plane.
    const auto sum = hn::Add(hn::BitCast(du, ToNearest(hn::Mul(hn::Sub(v, to.minimum), to.steps))), u16);
    for (size_t b = 0; b < kBits; ++b) {
      const auto bit = hn::TestBit(sum, hn::Set(du, 0x10000u << b));
      StoreBits(hn::RebindMask(d, bit), to.planes + b * to.plane_bytes, i + e);
    }
  }
}

template <int kBits>
HWY_INLINE void QuantizeRun(const float* x, const uint32_t* words, const Quantizer& to, size_t i) {
  QuantizeLanes<kBits, 0>(x, words, to, i);
  QuantizeLanes<kBits, 1>(x, words, to, i);
  QuantizeLanes<kBits, 2>(x, words, to, i);
  QuantizeLanes<kBits, 3>(x, words, to, i);
}

// words: those of the group's first run and of the runs behind it.
template <int kBits>
void QuantizeGroup(const float* x, size_t count, const UniformScale& scale, const uint32_t* words,
                   uint8_t* planes) {
  const size_t plane_bytes = (count + 7) / 8;
  const Quantizer to{hn::Set(D(), scale.minimum), hn::Set(D(), scale.steps), planes, plane_bytes};
  size_t i = 0;
  for (; i + kRun <= count; i += kRun) QuantizeRun<kBits>(x + i, words + i / 4, to, i);
  if (i == count) return;
  // The end of a sample: a run padded on both sides, of which the bits inside are kept.
  const size_t rest = count - i;
  float padded[kRun] = {};
  std::copy(x + i, x + count, padded);
  uint8_t bits[kBits * kRun / 8];
  QuantizeRun<kBits>(padded, words + i / 4, {to.minimum, to.steps, bits, kRun / 8}, 0);
  for (size_t b = 0; b < kBits; ++b) {
    uint8_t* last = planes + b * plane_bytes + i / 8;
    std::memcpy(last, bits + b * kRun / 8, (rest + 7) / 8);
    if (rest % 8 != 0) last[rest / 8] &= static_cast<uint8_t>((1u << rest % 8) - 1);
  }
}

using QuantizeFunction = void (*)(const float*, size_t, const UniformScale&, const uint32_t*, uint8_t*);
constexpr QuantizeFunction kQuantizeGroup[] = {QuantizeGroup<1>, QuantizeGroup<2>, QuantizeGroup<3>,
                                               QuantizeGroup<4>, QuantizeGroup<5>, QuantizeGroup<6>,
                                               QuantizeGroup<7>, QuantizeGroup<8>};

void EncodeUniformTile(const Codec& codec, const CodeLayout& layout, const RandomStream& random,
                       const TilePlace& place, const float* x, uint8_t* code) {
  const int64_t group = codec.group_size, first_group = place.first / group;
  const auto count = [&](int64_t g) { return static_cast<size_t>(std::min(group, place.count - g * group)); };
  // All scales before all codes: the scalar arithmetic of the groups overlaps.
  UniformScale scales[kTileElements / kRun];
  for (int64_t g = 0; g * group < place.count; ++g) {
    scales[g] = ScaleOf(x + g * group, count(g), codec.bits);
    uint8_t* metadata = code + (first_group + g) * layout.metadata_bytes;
    std::memcpy(metadata, &scales[g].minimum_bf16, 2);
    std::memcpy(metadata + 2, &scales[g].scale_bf16, 2);
  }
  alignas(64) uint32_t words[kTileElements / 4];
  uint64_t call = FirstCall(kRandom16Block, place.sample, place.elements, place.first);
  for (int64_t e = 0; e < place.count; e += kRandom16Block, call += kRandomLanes)
    RandomRow(random, call, words + e / 4);
  for (int64_t g = 0; g * group < place.count; ++g) {
    uint8_t* planes = code + layout.payload_offset + (first_group + g) * layout.group_bytes;
    if (IsFinite(scales[g]))
      kQuantizeGroup[codec.bits - 1](x + g * group, count(g), scales[g], words + g * group / 4, planes);
    else
      std::memset(planes, 0, static_cast<size_t>(codec.bits) * ((count(g) + 7) / 8));
  }
}

// x[i] = base + sum over planes of bit i times level 2^b. The sum is exact (see DequantizeUniform), so its
// order is free.
template <int kBits, bool kTimes>
HWY_INLINE void DecodePlanes(const uint8_t* planes, size_t plane_bytes, size_t count, float base, float level,
                             const float* times, float* x) {
  const D d;
  const V from = hn::Set(d, base);
  V levels[kBits];
  for (int b = 0; b < kBits; ++b) levels[b] = hn::Set(d, level * static_cast<float>(1 << b));
  const auto decode = [&](size_t i) HWY_ATTR {
    V v = hn::IfThenElseZero(LoadMask(planes, i), levels[0]);
    for (int b = 1; b < kBits; ++b) {
      const Mask bit = LoadMask(planes + static_cast<size_t>(b) * plane_bytes, i);
      v = hn::IfThenElse(bit, hn::Add(v, levels[b]), v);
    }
    return hn::Add(v, from);
  };
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const V v = decode(i);
    if constexpr (kTimes) {
      hn::StoreU(hn::Mul(v, hn::LoadU(d, times + i)), d, x + i);
    } else {
      hn::StoreU(v, d, x + i);
    }
  }
  if (i == count) return;
  const Mask rest = hn::FirstN(d, count - i);
  V v = decode(i);
  if constexpr (kTimes) v = hn::Mul(v, hn::MaskedLoad(rest, d, times + i));
  hn::BlendedStore(v, rest, d, x + i);
}

template <int kBits>
void DecodeBits(const uint8_t* planes, size_t plane_bytes, size_t count, float base, float level,
                const float* times, float* x) {
  if (times) return DecodePlanes<kBits, true>(planes, plane_bytes, count, base, level, times, x);
  DecodePlanes<kBits, false>(planes, plane_bytes, count, base, level, times, x);
}

using DecodeFunction = void (*)(const uint8_t*, size_t, size_t, float, float, const float*, float*);
constexpr DecodeFunction kDecodeBits[] = {DecodeBits<1>, DecodeBits<2>, DecodeBits<3>, DecodeBits<4>,
                                          DecodeBits<5>, DecodeBits<6>, DecodeBits<7>, DecodeBits<8>};

void DecodeGroup(const Codec& codec, const uint8_t* planes, size_t count, float base, float level,
                 const float* times, float* x) {
  const DecodeFunction decode = kDecodeBits[codec.bits - 1];
  const size_t plane_bytes = (count + 7) / 8;
  if (count == static_cast<size_t>(codec.group_size))
    return decode(planes, plane_bytes, count, base, level, times, x);
  const PaddedPlanes padded(planes, plane_bytes, codec.bits);
  decode(padded.bytes, 128, count, base, level, times, x);
}

// ---- Tiles
// ------------------------------------------------------------------------------------------------------------

void EncodeTile(const Codec& codec, const CodeLayout& layout, const RandomStream& random,
                const TilePlace& place, const float* x, uint8_t* code) {
  const int64_t group = codec.group_size;
  if (codec.kind == CodecKind::kUniform) EncodeUniformTile(codec, layout, random, place, x, code);
  for (int64_t e = 0; e < place.count && codec.kind != CodecKind::kUniform; e += group) {
    const size_t count = static_cast<size_t>(std::min(group, place.count - e));
    uint8_t* planes = code + layout.payload_offset + (place.first + e) / group * layout.group_bytes;
    if (codec.kind == CodecKind::kMask)
      EncodeMaskTile(x + e, count, planes);
    else
      EncodeIndexGroup(x + e, count, codec.bits, planes);
  }
  if (place.first + place.count == place.elements) {
    const int64_t rest = layout.elements % group;
    const int64_t end =
        layout.payload_offset + layout.elements / group * layout.group_bytes + codec.bits * ((rest + 7) / 8);
    std::memset(code + end, 0, static_cast<size_t>(layout.sample_bytes - end));
  }
}

void DecodeTile(const Codec& codec, const CodeLayout& layout, const TilePlace& place, const uint8_t* code,
                const float* times, float* x) {
  const int64_t group = codec.group_size;
  for (int64_t e = 0; e < place.count; e += group) {
    const int64_t g = (place.first + e) / group;
    const size_t count = static_cast<size_t>(std::min(group, place.count - e));
    float base = 0, level = 1;
    if (codec.kind == CodecKind::kUniform) {
      uint16_t stored[2];
      std::memcpy(stored, code + g * layout.metadata_bytes, 4);
      base = FloatFromBFloat16(stored[0]);
      level = FloatFromBFloat16(stored[1]);
    }
    DecodeGroup(codec, code + layout.payload_offset + g * layout.group_bytes, count, base, level,
                times ? times + e : nullptr, x + e);
  }
}

void DropoutTile(const RandomStream& random, float probability, const TilePlace& place, const float* a,
                 float* x) {
  const D d;
  const DU du;
  const auto threshold = hn::Set(du, DropoutThreshold(probability));
  const V scale = hn::Set(d, 1.0f / (1.0f - probability));
  uint64_t call = FirstCall(kRandom32Block, place.sample, place.elements, place.first);
  for (int64_t e = 0; e < place.count; e += kRandom32Block, call += kRandomLanes) {
    alignas(64) uint32_t words[kRandom32Block];
    RandomRow(random, call, words);
    const size_t count = static_cast<size_t>(std::min(kRandom32Block, place.count - e));
    for (size_t i = 0; i < count; i += hn::Lanes(d)) {
      const Mask inside = hn::FirstN(d, count - i);
      const Mask keep = hn::RebindMask(d, hn::Not(hn::Lt(hn::Load(du, words + i), threshold)));
      const V v = hn::Mul(hn::MaskedLoad(inside, d, a + e + i), scale);
      hn::BlendedStore(hn::IfThenElseZero(keep, v), inside, d, x + e + i);
    }
  }
}

void RandomRows(const RandomStream& random, uint64_t first_call, size_t rows, uint32_t* words) {
  for (size_t r = 0; r < rows; ++r)
    RandomRow(random, first_call + r * kRandomLanes, words + r * kRandom32Block);
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {

HWY_EXPORT(EncodeTile);
HWY_EXPORT(DecodeTile);
HWY_EXPORT(DropoutTile);
HWY_EXPORT(RandomRows);

void EncodeTile(const Codec& codec, const CodeLayout& layout, const RandomStream& random,
                const TilePlace& place, const float* x, uint8_t* code) {
  HWY_DYNAMIC_DISPATCH(EncodeTile)(codec, layout, random, place, x, code);
}
void DecodeTile(const Codec& codec, const CodeLayout& layout, const TilePlace& place, const uint8_t* code,
                const float* times, float* x) {
  HWY_DYNAMIC_DISPATCH(DecodeTile)(codec, layout, place, code, times, x);
}
void DropoutTile(const RandomStream& random, float probability, const TilePlace& place, const float* a,
                 float* x) {
  HWY_DYNAMIC_DISPATCH(DropoutTile)(random, probability, place, a, x);
}
void RandomRows(const RandomStream& random, uint64_t first_call, size_t rows, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(RandomRows)(random, first_call, rows, words);
}

}  // namespace act
#endif
