// Encodes and decodes a piece of a sample, a warp at a time. Every byte is that of kernels/reference/codec.h.
#pragma once

#include "kernels/cuda/source/code_piece.h"
#include "kernels/cuda/source/packing.h"
#include "kernels/math/level_code.h"
#include "kernels/math/small_code.h"
#include "kernels/math/small_float.h"

namespace act {

// ---- Range and scale of a group

// Floats as unsigned integers of the same order. NaNs come first and last.
ACT_DEVICE uint32_t OrderOf(float x) {
  const uint32_t bits = BitsOf(x);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}
ACT_DEVICE float FloatOfOrder(uint32_t order) {
  return FloatOf(order ^ (order >> 31 != 0 ? 0x80000000u : 0xFFFFFFFFu));
}

struct OrderRange {
  uint32_t least = 0xFFFFFFFFu, most = 0;
  ACT_DEVICE void Add(uint32_t order, bool inside) {
    const uint32_t low = inside ? order : 0xFFFFFFFFu, high = inside ? order : 0u;
    least = low < least ? low : least;
    most = high > most ? high : most;
  }
  ACT_DEVICE bool IsEmpty() const { return least > most; }
};

// Of a group of `count` elements, in all lanes.
template <DeviceCode kCode, bool kFull, int kPerLane>
ACT_DEVICE GroupRange RangeOf(const float (&x)[kPerLane], int count, int lane) {
  constexpr bool kZero = kCode.codec.kind == CodecKind::kZero,
                 kSides = kCode.codec.metadata == Metadata::kSides;
  OrderRange all, above, below;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const bool inside = (kFull || 32 * j + lane < count) && !(kZero && x[j] == 0);
    const uint32_t order = OrderOf(x[j]);
    all.Add(order, inside);
    if constexpr (kSides) {
      above.Add(order, inside && x[j] > 0);
      below.Add(order, inside && !(x[j] > 0));
    }
  }
  all.least = ReduceMin(kAllLanes, all.least);
  all.most = ReduceMax(kAllLanes, all.most);
  GroupRange range;
  if (all.IsEmpty()) return range;
  range.lowest = FloatOfOrder(all.least);
  range.highest = FloatOfOrder(all.most);
  const uint32_t low = BitsOf(range.lowest) & 0x7FFFFFFFu, high = BitsOf(range.highest) & 0x7FFFFFFFu;
  range.largest_bits = low > high ? low : high;  // a NaN is lowest or highest
  if constexpr (kSides) {
    above.least = ReduceMin(kAllLanes, above.least);
    above.most = ReduceMax(kAllLanes, above.most);
    below.most = ReduceMax(kAllLanes, below.most);
    below.least = ReduceMin(kAllLanes, below.least);
    if (!above.IsEmpty()) range.least_above = FloatOfOrder(above.least);
    if (!below.IsEmpty()) range.most_below = FloatOfOrder(below.most);
  }
  return range;
}

// The metadata of a group, in the widest accesses that its address allows.
template <int kBytes>
ACT_DEVICE void StoreMetadata(const uint8_t (&bytes)[8], uint8_t* to) {
  if constexpr (kBytes % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes; i += 4) {
      uint32_t word;
      memcpy(&word, bytes + i, 4);
      Store(reinterpret_cast<uint32_t*>(to + i), word);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kBytes; ++i) Store(to + i, bytes[i]);
  }
}
template <int kBytes>
ACT_DEVICE void LoadMetadata(const uint8_t* from, uint8_t (&bytes)[8]) {
  if constexpr (kBytes % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes; i += 4) {
      const uint32_t word = Load(reinterpret_cast<const uint32_t*>(from + i));
      memcpy(bytes + i, &word, 4);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kBytes; ++i) bytes[i] = Load(from + i);
  }
}

// ---- Levels

// The levels of one side of a codec (FittedLevelsOf). In constants alone: device code reads no table of the
// host.
ACT_HOST_DEVICE constexpr FittedLevels LevelsOfSide(const CodecSpec& codec, bool below) {
  if (codec.spacing == Spacing::kEven) return {};
  const FittedSpacing& spacing = kFittedSpacings[static_cast<int>(codec.spacing) - 1];
  const bool sign = codec.kind == CodecKind::kSign;
  const int count = !sign ? codec.LevelsOverRange() : below ? codec.below : codec.LevelsAbove();
  return MakeFittedLevels(
      (codec.kind == CodecKind::kUniform ? spacing.two_sides : spacing.one_side)[count - 2], count);
}
template <DeviceCode kCode>
ACT_DEVICE FittedPair DeviceFittedLevels() {
  if constexpr (kCode.codec.spacing == Spacing::kEven) {
    return {};
  } else if constexpr (kCode.codec.kind == CodecKind::kSign) {
    static constexpr FittedLevels kAbove = LevelsOfSide(kCode.codec, false),
                                  kBelow = LevelsOfSide(kCode.codec, true);
    return {&kAbove, &kBelow};
  } else {
    static constexpr FittedLevels kAll = LevelsOfSide(kCode.codec, false);
    return {&kAll, nullptr};
  }
}

// ---- Groups. Group `group` of the piece's sample begins at the lane's element kFirst of the piece.

// What a piece needs to round the elements of a code.
template <DeviceCode kCode, int kPerLane, class Starts>
struct Rounder {
  ACT_DEVICE Rounder(const RandomStream& stream, Starts& starts, const Piece& piece)
      : starts(starts), bits(stream, piece, kCode.elements) {}
  ACT_DEVICE uint32_t StartOf(const Piece& piece, int64_t group) {
    if constexpr (!kCode.codec.HasLevels() || kCode.codec.rounding != Rounding::kDither) return 0;
    return starts.Of(static_cast<uint64_t>(piece.random_sample * kCode.groups + group), piece.lane);
  }
  Starts& starts;
  RoundingBits<kCode.codec.HasLevels() ? kCode.codec.rounding : Rounding::kNearest, kPerLane> bits;
};

// `code` is that of the sample.
template <DeviceCode kCode, bool kFull, class OfPiece>
ACT_DEVICE void EncodeGroup(const float (&x)[kCode.PerLane()], int count, int64_t group, int first,
                            const Piece& piece, OfPiece& rounder, uint8_t* stage, uint8_t* code) {
  constexpr CodecSpec kCodec = kCode.codec;
  uint32_t q[kCode.PerLane()];
  if constexpr (kCodec.HasLevels()) {
    uint8_t metadata[8] = {};
    StoreGroupScale(kCodec, RangeOf<kCode, kFull>(x, count, piece.lane), metadata);
    if (piece.lane == 0)
      StoreMetadata<static_cast<int>(kCode.metadata_bytes)>(metadata, code + group * kCode.metadata_bytes);
    const GroupScale scale = LoadGroupScale(kCodec, metadata);
    const bool finite = IsFinite(scale);
    const FittedPair fitted = DeviceFittedLevels<kCode>();
    const uint32_t start = rounder.StartOf(piece, group);
#pragma unroll
    for (int j = 0; j < kCode.PerLane(); ++j) {
      const bool inside = kFull || 32 * j + piece.lane < count;
      q[j] = !inside || !finite ? 0u
                                : QuantizeLevel(kCodec, x[j], scale, fitted,
                                                rounder.bits.Of(first + j, 32 * j + piece.lane, start));
    }
  } else {
#pragma unroll
    for (int j = 0; j < kCode.PerLane(); ++j) {
      const uint32_t element =
          kCodec.kind == CodecKind::kMask ? EncodeMask(x[j]) : EncodeIndex(x[j], kCodec.bits);
      q[j] = kFull || 32 * j + piece.lane < count ? element : 0;
    }
  }
  StoreCodes<kCode, kFull>(q, count, piece.lane, stage,
                           code + kCode.payload_offset + group * kCode.group_bytes);
}

// kMask: 1 where the element is greater than 0 (kZero: not 0), else 0.
template <DeviceCode kCode, bool kMask, bool kFull, class OfPiece>
ACT_DEVICE void DecodeGroup(const uint8_t* code, int count, int64_t group, int first, const Piece& piece,
                            OfPiece& rounder, uint8_t* stage, float (&x)[kCode.PerLane()]) {
  constexpr CodecSpec kCodec = kCode.codec;
  uint32_t q[kCode.PerLane()];
  LoadCodes<kCode, kFull>(code + kCode.payload_offset + group * kCode.group_bytes, count, piece.lane, stage,
                          q);
  if constexpr (kMask) {
#pragma unroll
    for (int j = 0; j < kCode.PerLane(); ++j) {
      const auto above = static_cast<uint32_t>(kCodec.LevelsAbove());
      x[j] = (kCodec.kind == CodecKind::kSign ? q[j] < above : q[j] != 0) ? 1.0f : 0.0f;
    }
  } else if constexpr (kCodec.HasLevels()) {
    uint8_t metadata[8] = {};
    LoadMetadata<static_cast<int>(kCode.metadata_bytes)>(code + group * kCode.metadata_bytes, metadata);
    const GroupScale scale = LoadGroupScale(kCodec, metadata);
    const FittedPair fitted = DeviceFittedLevels<kCode>();
    const uint32_t start = rounder.StartOf(piece, group);
#pragma unroll
    for (int j = 0; j < kCode.PerLane(); ++j) {
      const bool dither = kCodec.rounding == Rounding::kDither;
      const uint32_t u16 = rounder.bits.Of(first + j, 32 * j + piece.lane, start);
      x[j] = DequantizeLevel(kCodec, q[j], scale, fitted, dither ? DitherOffset(u16) : 0);
    }
  } else {
#pragma unroll
    for (int j = 0; j < kCode.PerLane(); ++j) x[j] = static_cast<float>(q[j]);
  }
}

// ---- Casts, plain arrays of 8 or 16 bits

template <DeviceCode kCode, bool kFull, int kPerLane>
ACT_DEVICE void EncodeCast(const float (&x)[kPerLane], const Piece& piece, uint8_t* code) {
  constexpr SmallFloat kFormat = kCode.codec.cast;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int64_t i = piece.first + 32 * j + piece.lane;
    if (!kFull && 32 * j + piece.lane >= piece.count) continue;
    const uint32_t bits = EncodeSmallFloat(kFormat, x[j]);
    if constexpr (kFormat.Bits() == 16)
      Store(reinterpret_cast<uint16_t*>(code + kCode.payload_offset) + i, static_cast<uint16_t>(bits));
    else
      Store(code + kCode.payload_offset + i, static_cast<uint8_t>(bits));
  }
}

template <DeviceCode kCode, bool kFull, int kPerLane>
ACT_DEVICE void DecodeCast(const uint8_t* code, const Piece& piece, float (&x)[kPerLane]) {
  constexpr SmallFloat kFormat = kCode.codec.cast;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int64_t i = piece.first + 32 * j + piece.lane;
    const bool inside = kFull || 32 * j + piece.lane < piece.count;
    uint32_t bits = 0;
    if constexpr (kFormat.Bits() == 16)
      bits = inside ? Load(reinterpret_cast<const uint16_t*>(code + kCode.payload_offset) + i) : 0u;
    else
      bits = inside ? Load(code + kCode.payload_offset + i) : 0u;
    x[j] = DecodeSmallFloat(kFormat, bits);
  }
}

// ---- Pieces

// The zeros between metadata and payload and after the payload, which the piece that ends the sample writes.
template <DeviceCode kCode>
ACT_DEVICE void ClearPadding(const Piece& piece, uint8_t* code) {
  constexpr int64_t kMetadataEnd = kCode.groups * kCode.metadata_bytes;
  constexpr int64_t kPayloadEnd = kCode.payload_offset + kCode.payload_bytes;
  if (piece.first + piece.count != kCode.elements) return;
  if (piece.lane < kCode.payload_offset - kMetadataEnd) Store(code + kMetadataEnd + piece.lane, uint8_t{0});
  if (piece.lane < kCode.sample_bytes - kPayloadEnd) Store(code + kPayloadEnd + piece.lane, uint8_t{0});
}

// `code` is the whole tensor's. kFull: the piece has all of its elements.
template <DeviceCode kCode, bool kFull, int kPerLane, class Starts>
ACT_DEVICE void Encode(const float (&x)[kPerLane], const Piece& piece, const RandomStream& stream,
                       Starts&& starts, uint8_t* stage, uint8_t* code) {
  if (!kFull && piece.count <= 0) return;
  code += piece.sample * kCode.sample_bytes;
  if constexpr (kCode.codec.kind == CodecKind::kCast) {
    EncodeCast<kCode, kFull>(x, piece, code);
  } else {
    constexpr int kGroup = kCode.codec.group_size, kLanes = kCode.PerLane();
    Rounder<kCode, kPerLane, std::remove_reference_t<Starts>> rounder(stream, starts, piece);
#pragma unroll
    for (int g = 0; g < kPerLane / kLanes; ++g) {
      const int count = piece.count - g * kGroup;
      if (!kFull && count <= 0) break;
      float of_group[kLanes];
#pragma unroll
      for (int j = 0; j < kLanes; ++j) of_group[j] = x[g * kLanes + j];
      EncodeGroup<kCode, kFull>(of_group, count < kGroup ? count : kGroup, piece.first / kGroup + g,
                                g * kLanes, piece, rounder, stage, code);
    }
  }
  ClearPadding<kCode>(piece, code);
}

template <DeviceCode kCode, bool kMask, bool kFull, int kPerLane, class Starts>
ACT_DEVICE void Decode(const uint8_t* code, const Piece& piece, const RandomStream& stream, Starts&& starts,
                       uint8_t* stage, float (&x)[kPerLane]) {
  if (!kFull && piece.count <= 0) return;
  code += piece.sample * kCode.sample_bytes;
  if constexpr (kCode.codec.kind == CodecKind::kCast) {
    DecodeCast<kCode, kFull>(code, piece, x);
  } else {
    constexpr int kGroup = kCode.codec.group_size, kLanes = kCode.PerLane();
    Rounder<kCode, kPerLane, std::remove_reference_t<Starts>> rounder(stream, starts, piece);
#pragma unroll
    for (int g = 0; g < kPerLane / kLanes; ++g) {
      const int count = piece.count - g * kGroup;
      if (!kFull && count <= 0) break;
      float of_group[kLanes];
      DecodeGroup<kCode, kMask, kFull>(code, count < kGroup ? count : kGroup, piece.first / kGroup + g,
                                       g * kLanes, piece, rounder, stage, of_group);
#pragma unroll
      for (int j = 0; j < kLanes; ++j) x[g * kLanes + j] = of_group[j];
    }
  }
}

}  // namespace act
