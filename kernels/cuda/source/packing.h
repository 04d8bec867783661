// The payload of a group: codes in bit planes, or several codes to a number (runtime/codec/codec.h,
// CodeLayout). A warp packs and unpacks a group; lane l holds codes 32 j + l.
#pragma once

#include "kernels/cuda/source/code_piece.h"

namespace act {

// ---- Bit planes. The lanes' bits b of their codes j, as a ballot, are word j of plane b.

template <int kBits, int kPerLane>
ACT_DEVICE void StorePlanes(const uint32_t (&q)[kPerLane], int lane, uint8_t* to) {
  constexpr int kWords = kBits * kPerLane;
  auto* words = reinterpret_cast<uint32_t*>(to);
#pragma unroll
  for (int first = 0; first < kWords; first += 32) {
    uint32_t mine = 0;  // word first + lane
#pragma unroll
    for (int i = 0; i < 32 && first + i < kWords; ++i) {
      const int b = (first + i) / kPerLane, j = (first + i) % kPerLane;
      const uint32_t word = Ballot(kAllLanes, (q[j] >> b & 1) != 0);
      mine = lane == i ? word : mine;
    }
    if (first + lane < kWords) Store(words + first + lane, mine);
  }
}

// Planes of a group of `count` elements, which take whole bytes each.
template <int kBits, int kPerLane>
ACT_DEVICE void StoreShortPlanes(const uint32_t (&q)[kPerLane], int count, int lane, uint8_t* to) {
  const int plane_bytes = (count + 7) / 8;
  for (int b = 0; b < kBits; ++b) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const uint32_t word = Ballot(kAllLanes, (q[j] >> b & 1) != 0);
      if (lane < 4 && 4 * j + lane < plane_bytes)
        Store(to + b * plane_bytes + 4 * j + lane, static_cast<uint8_t>(word >> (8 * lane)));
    }
  }
}

// All lanes load a plane's words at once: four of them, or the two of a small group.
template <int kPerLane>
ACT_DEVICE void LoadPlane(const uint8_t* from, uint32_t (&words)[kPerLane]) {
  if constexpr (kPerLane == 2) {
    const uint2 two = Load(reinterpret_cast<const uint2*>(from));
    words[0] = two.x;
    words[1] = two.y;
  } else {
#pragma unroll
    for (int j = 0; j < kPerLane; j += 4) {
      const uint4 four = Load(reinterpret_cast<const uint4*>(from + 4 * j));
      words[j] = four.x;
      words[j + 1] = four.y;
      words[j + 2] = four.z;
      words[j + 3] = four.w;
    }
  }
}

template <int kBits, int kPerLane>
ACT_DEVICE void LoadPlanes(const uint8_t* from, int lane, uint32_t (&q)[kPerLane]) {
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) q[j] = 0;
#pragma unroll
  for (int b = 0; b < kBits; ++b) {
    uint32_t words[kPerLane];
    LoadPlane(from + b * 4 * kPerLane, words);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) q[j] |= (words[j] >> lane & 1) << b;
  }
}

template <int kBits, int kPerLane>
ACT_DEVICE void LoadShortPlanes(const uint8_t* from, int count, int lane, uint32_t (&q)[kPerLane]) {
  const int plane_bytes = (count + 7) / 8;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int i = 32 * j + lane;
    q[j] = 0;
    for (int b = 0; b < kBits && i < count; ++b)
      q[j] |= (uint32_t{Load(from + b * plane_bytes + i / 8)} >> (i % 8) & 1) << b;
  }
}

// ---- Several codes to a number. Code i is digit i / W of number i % W, and the numbers' bits are planes of W bits, one
// right after the other. Codes, planes and payload pass through `stage`, shared memory of the warp
// (CudaLoop::stage_bytes).

template <DeviceCode kCode>
ACT_DEVICE int NumbersOf(int count) {
  return (count + kCode.codes - 1) / kCode.codes;
}

template <DeviceCode kCode, int kPerLane>
ACT_DEVICE void StoreNumbers(const uint32_t (&q)[kPerLane], int count, int lane, uint8_t* stage,
                             uint8_t* to) {
  uint8_t* codes = stage;
  auto* planes = reinterpret_cast<uint32_t*>(stage + kCode.codec.group_size);
  const int numbers = NumbersOf<kCode>(count), words = (numbers + 31) / 32;  // words of a plane
  SyncWarp();
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) codes[32 * j + lane] = static_cast<uint8_t>(q[j]);
  SyncWarp();
  for (int w = 0; w < words; ++w) {
    uint32_t number = 0;
#pragma unroll
    for (int digit = kCode.codes - 1; digit >= 0; --digit) {
      const int i = digit * numbers + 32 * w + lane;
      const bool inside = 32 * w + lane < numbers && i < count;
      number = number * static_cast<uint32_t>(kCode.codec.levels) + (inside ? codes[i] : 0u);
    }
#pragma unroll
    for (int b = 0; b < kCode.bits; ++b) {
      const uint32_t word = Ballot(kAllLanes, (number >> b & 1) != 0);
      if (lane == 0) planes[b * words + w] = word;
    }
  }
  SyncWarp();
  // Each lane makes bytes of the payload: from one plane or from more.
  for (int byte = lane; byte < (numbers * kCode.bits + 7) / 8; byte += 32) {
    int plane = 8 * byte / numbers, at = 8 * byte % numbers;
    uint32_t bits = 0;
    for (int filled = 0; filled < 8 && plane < kCode.bits;) {
      const int in_plane = numbers - at, in_word = 32 - at % 32;
      const int some = in_plane < in_word ? in_plane : in_word;
      bits |= planes[plane * words + at / 32] >> (at % 32) << filled;  // beyond a plane's end, bits are 0
      filled += some;
      at += some;
      if (at == numbers) {
        at = 0;
        ++plane;
      }
    }
    Store(to + byte, static_cast<uint8_t>(bits));
  }
}

template <DeviceCode kCode, int kPerLane>
ACT_DEVICE void LoadNumbers(const uint8_t* from, int count, int lane, uint8_t* stage,
                            uint32_t (&q)[kPerLane]) {
  uint8_t* codes = stage;
  auto* payload = reinterpret_cast<uint32_t*>(stage + kCode.codec.group_size);
  const int numbers = NumbersOf<kCode>(count);
  SyncWarp();
  for (int byte = lane; byte < (numbers * kCode.bits + 7) / 8; byte += 32)
    reinterpret_cast<uint8_t*>(payload)[byte] = Load(from + byte);
  SyncWarp();
  for (int w = lane; w < numbers; w += 32) {
    uint32_t number = 0;
#pragma unroll
    for (int b = 0; b < kCode.bits; ++b) {
      const int at = b * numbers + w;
      number |= (payload[at / 32] >> (at % 32) & 1) << b;
    }
#pragma unroll
    for (int digit = 0; digit < kCode.codes; ++digit) {
      const int i = digit * numbers + w;
      if (i < count) codes[i] = static_cast<uint8_t>(number % static_cast<uint32_t>(kCode.codec.levels));
      number /= static_cast<uint32_t>(kCode.codec.levels);
    }
  }
  SyncWarp();
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) q[j] = 32 * j + lane < count ? codes[32 * j + lane] : 0u;
}

// ---- Either

template <DeviceCode kCode, bool kFull, int kPerLane>
ACT_DEVICE void StoreCodes(const uint32_t (&q)[kPerLane], int count, int lane, uint8_t* stage, uint8_t* to) {
  if constexpr (kCode.codes > 1)
    StoreNumbers<kCode>(q, kFull ? kCode.codec.group_size : count, lane, stage, to);
  else if (kFull || count == kCode.codec.group_size)
    StorePlanes<kCode.bits>(q, lane, to);
  else
    StoreShortPlanes<kCode.bits>(q, count, lane, to);
}

template <DeviceCode kCode, bool kFull, int kPerLane>
ACT_DEVICE void LoadCodes(const uint8_t* from, int count, int lane, uint8_t* stage, uint32_t (&q)[kPerLane]) {
  if constexpr (kCode.codes > 1)
    LoadNumbers<kCode>(from, kFull ? kCode.codec.group_size : count, lane, stage, q);
  else if (kFull || count == kCode.codec.group_size)
    LoadPlanes<kCode.bits>(from, lane, q);
  else
    LoadShortPlanes<kCode.bits>(from, count, lane, q);
}

}  // namespace act
