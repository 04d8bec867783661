// Vectorized encoding, decoding and dropout of one tile. The codes are byte for byte those of
// kernels/reference/codec.h, on every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/fused_tile.h"
#include "kernels/math/random.h"
#include "runtime/codec/codec.h"

namespace act {

// Part of a sample: elements first .. first + count - 1, count <= kTileElements. `first` is a
// multiple of every codec group and of every block in which random numbers are drawn. So is
// `count`, unless the sample ends there.
struct TilePlace {
  int64_t sample = 0;
  int64_t elements = 0;  // of the whole sample
  int64_t first = 0;
  int64_t count = 0;
};

// A stream of random numbers, and the sixteen calls that were drawn last. Successive tiles share
// them.
struct DrawnStream {
  DrawnStream() = default;
  explicit DrawnStream(const RandomStream& s) : stream(s) {}

  RandomStream stream = {};
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t first_call = kNone;                 // a multiple of 16, of what `words` holds
  alignas(64) uint32_t words[kRandom32Block];  // as RandomRows makes them
};

// x: the tile's `count` elements. code: the sample's code, LayoutOf(codec, elements) = layout.
void EncodeTile(const Codec& codec, const CodeLayout& layout, DrawnStream& random, const TilePlace& place,
                const float* x, uint8_t* code);
// Operations on decoded numbers v before they are stored, in this order. None by default.
struct DecodeEpilogue {
  // 1 where the element is greater than 0 (kZero: not 0), else 0; needs HoldsMask()
  bool mask = false;
  bool magnitude = false;             // |v|
  TileOperand times = {}, plus = {};  // v * times + plus; data null: 1 and 0
  // for kSign: times 1 where the element is greater than 0, else times 0
  bool keep_positive = false;

  bool Changes() const { return magnitude || times.data || plus.data || keep_positive; }
};

// x[i] = decoded[i] with the epilogue applied. x may be `times` or `plus`. `random` is that of the
// encode.
void DecodeTile(const Codec& codec, const CodeLayout& layout, DrawnStream& random, const TilePlace& place,
                const uint8_t* code, const DecodeEpilogue& epilogue, float* x);

// x[i] = keep ? a[i] / (1 - probability) : 0. x may be a.
void DropoutTile(const RandomStream& random, float probability, const TilePlace& place, const float* a,
                 float* x);

// The words of `rows` rows of 16 calls from `first_call` (a multiple of 16) on: words[row][word
// 0..3][call 0..15].
void RandomRows(const RandomStream& random, uint64_t first_call, size_t rows, uint32_t* words);

}  // namespace act
