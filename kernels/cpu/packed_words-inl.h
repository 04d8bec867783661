// Packs codes that are held in bytes: into bit planes, or several to a number
// (runtime/codec/codec.h, CodePackingOf). Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_PACKED_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_PACKED_WORDS_INL_H_
#undef ACT_PACKED_WORDS_INL_H_
#else
#define ACT_PACKED_WORDS_INL_H_
#endif

#include "kernels/cpu/bit_planes-inl.h"
#include "runtime/codec/codec.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

inline constexpr size_t kMostGroup = 1024;

// Bit b of the bytes, to plane b, `plane_bytes` after the one before it. Writes `bytes` of each.
HWY_INLINE void StorePlanes(VB q, int bits, size_t plane_bytes, size_t bytes, uint8_t* planes) {
  for (int b = 0; b < bits; ++b, planes += plane_bytes) {
    uint8_t packed[8];
    hn::StoreMaskBits(DB(), hn::TestBit(q, hn::Set(DB(), static_cast<uint8_t>(1 << b))), packed);
    std::memcpy(planes, packed, bytes);
  }
}

// Packs bytes q[i] < 2^bits into `bits` planes of ceil(count / 8) bytes. q must be readable up to a
// multiple of kRun, and 0 from `count` on.
inline void PackPlanes(const uint8_t* q, size_t count, int bits, uint8_t* planes) {
  const size_t plane_bytes = (count + 7) / 8;
  if constexpr (hn::MaxLanes(DB()) < 8) {
    std::memset(planes, 0, static_cast<size_t>(bits) * plane_bytes);
    for (size_t i = 0; i < count; ++i)
      for (size_t b = 0; b < static_cast<size_t>(bits); ++b)
        planes[b * plane_bytes + i / 8] |= static_cast<uint8_t>((q[i] >> b & 1) << (i % 8));
    return;
  }
  constexpr size_t kBytes = hn::MaxLanes(DB()) / 8;
  size_t i = 0;
  for (; i + 8 * kBytes <= count; i += 8 * kBytes)
    StorePlanes(hn::LoadU(DB(), q + i), bits, plane_bytes, kBytes, planes + i / 8);
  if (i < count) StorePlanes(hn::LoadU(DB(), q + i), bits, plane_bytes, plane_bytes - i / 8, planes + i / 8);
}

// ---- Several codes to a number. Numbers are below 2^16.

using DWBytes = hn::Rebind<uint8_t, DW>;
inline constexpr size_t kChunk = 64;  // numbers whose bits of a plane are read and written together
inline constexpr size_t kMostWords = kMostGroup / 2 + kChunk;

// Divides numbers below K^codes by K: multiplies by ceil(2^(16 + shift) / K). A test of all these
// numbers shows that this is exact.
struct Divisor {
  explicit Divisor(int levels) {
    int shift = 0;
    while ((2 << shift) < levels) ++shift;
    this->shift = shift;
    factor = static_cast<uint16_t>(((int64_t{1} << (16 + shift)) + levels - 1) / levels);
  }
  HWY_INLINE VW operator()(VW numbers) const {
    return hn::ShiftRightSame(hn::MulHigh(numbers, hn::Set(DW(), factor)), shift);
  }
  int shift;
  uint16_t factor;
};

// The bits of one plane of 64 numbers.
HWY_INLINE uint64_t PlaneOf(const uint16_t* words, int plane) {
  const DW d;
  uint64_t bits = 0;
  for (size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    uint8_t packed[8] = {};
    hn::StoreMaskBits(
        d, hn::TestBit(hn::LoadU(d, words + lane), hn::Set(d, static_cast<uint16_t>(1u << plane))), packed);
    uint64_t some;
    std::memcpy(&some, packed, 8);
    bits |= some << lane;
  }
  return bits;
}

// q: `count` codes below `levels`, in bytes. Up to kRun more bytes after them are overwritten.
inline void PackWords(uint8_t* q, size_t count, int levels, const CodePacking& packing, uint8_t* payload) {
  const DW d;
  const auto codes = static_cast<size_t>(packing.codes), bits = static_cast<size_t>(packing.bits);
  const size_t words = (count + codes - 1) / codes;
  alignas(64) uint16_t word[kMostWords];
  std::fill(word + words / kChunk * kChunk, word + words / kChunk * kChunk + kChunk, uint16_t{0});
  std::fill(q + count, q + count + kRun, uint8_t{0});
  for (size_t i = 0; i < words; i += hn::Lanes(d)) {
    const auto digit = [&](size_t k)
                           HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(DWBytes(), q + k * words + i)); };
    VW w = digit(codes - 1);
    for (size_t k = codes - 1; k-- > 0;)
      w = hn::Add(hn::Mul(w, hn::Set(d, static_cast<uint16_t>(levels))), digit(k));
    hn::StoreU(w, d, word + i);
  }
  // Writes the planes one after the other, 64 bits at a time.
  uint8_t stream[2 * kMostWords + 16];
  uint64_t pending = 0;
  size_t pending_bits = 0;
  uint8_t* to = stream;
  for (size_t b = 0; b < bits; ++b)
    for (size_t i = 0; i < words; i += kChunk) {
      const size_t n = std::min(kChunk, words - i);
      uint64_t plane = PlaneOf(word + i, static_cast<int>(b));
      if (n < kChunk) plane &= (uint64_t{1} << n) - 1;
      pending |= plane << pending_bits;
      if (pending_bits + n < 64) {
        pending_bits += n;
        continue;
      }
      std::memcpy(to, &pending, 8);
      to += 8;
      pending = pending_bits == 0 ? 0 : plane >> (64 - pending_bits);
      pending_bits = pending_bits + n - 64;
    }
  std::memcpy(to, &pending, 8);
  std::memcpy(payload, stream, (words * bits + 7) / 8);
}

// q has `count` bytes, and room for kRun more.
inline void UnpackWords(const uint8_t* payload, size_t count, int levels, const CodePacking& packing,
                        uint8_t* q) {
  const DW d;
  const auto codes = static_cast<size_t>(packing.codes), bits = static_cast<size_t>(packing.bits);
  const size_t words = (count + codes - 1) / codes;
  uint8_t stream[2 * kMostWords + 16];
  std::memcpy(stream, payload, (words * bits + 7) / 8);
  alignas(64) uint16_t word[kMostWords];
  for (size_t i = 0; i < words; i += kChunk) {
    uint64_t planes[16];
    for (size_t b = 0; b < bits; ++b) {
      const size_t at = b * words + i;
      uint64_t low;
      std::memcpy(&low, stream + at / 8, 8);
      planes[b] = low >> (at % 8) | (at % 8 == 0 ? 0 : uint64_t{stream[at / 8 + 8]} << (64 - at % 8));
    }
    for (size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
      VW w = hn::Zero(d);
      for (size_t b = 0; b < bits; ++b) {
        uint8_t packed[8];
        const uint64_t some = planes[b] >> lane;
        std::memcpy(packed, &some, 8);
        w = hn::Or(
            w, hn::IfThenElseZero(hn::LoadMaskBits(d, packed), hn::Set(d, static_cast<uint16_t>(1u << b))));
      }
      hn::StoreU(w, d, word + i + lane);
    }
  }
  // Writes the digits, lowest first. A vector may write past the elements of a digit; the next
  // digit overwrites that.
  const Divisor divide(levels);
  for (size_t k = 0; k < codes; ++k)
    for (size_t i = 0; i < words; i += hn::Lanes(d)) {
      const VW w = hn::LoadU(d, word + i), rest = divide(w);
      const VW digit = hn::Sub(w, hn::Mul(rest, hn::Set(d, static_cast<uint16_t>(levels))));
      hn::StoreU(hn::DemoteTo(DWBytes(), hn::BitCast(hn::RebindToSigned<DW>(), digit)), DWBytes(),
                 q + k * words + i);
      hn::StoreU(rest, d, word + i);
    }
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_PACKED_WORDS_INL_H_
