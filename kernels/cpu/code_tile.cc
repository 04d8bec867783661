#include "kernels/cpu/code_tile.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/dither_starts.h"
#include "kernels/cpu/group_scales.h"
#include "kernels/cpu/highway_targets.h"
#include "kernels/math/small_code.h"
#include "runtime/codec/group_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/code_tile.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "kernels/cpu/level_decode-inl.h"
#include "kernels/cpu/level_encode-inl.h"
#include "kernels/cpu/packed_words-inl.h"
#include "kernels/cpu/random-inl.h"
#include "kernels/cpu/small_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// ---- Masks and indices

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

// ---- Codes with levels

// One T for each of a tile's groups. They are set before they are read: clearing them all first took a third of the
// function that reads a tile's scales.
template <class T>
union OfGroups {
  OfGroups() {}
  T of[kTileElements / kRun];
};

void EncodeLevelsTile(EncodeLevelGroups& encode, const Codec& codec, const CodeLayout& layout,
                      DrawnStream& random, const TilePlace& place, const float* x, uint8_t* code) {
  const int64_t group = codec.group_size, first_group = place.first / group;
  const auto count = [&](int64_t g) { return static_cast<size_t>(std::min(group, place.count - g * group)); };
  // Computes all scales before all codes, so that the scalar arithmetic of different
  // groups overlaps.
  OfGroups<GroupRange> ranges;
  OfGroups<GroupScale> scales;
  uint32_t dither[kTileElements / kRun];
  DitherStarts starts(codec, random, place.sample, layout.groups);
  int64_t groups = 0;
  for (; groups * group < place.count; ++groups) {
    ranges.of[groups] = RangeOf(codec, x + groups * group, count(groups));
    dither[groups] = starts.Of(first_group + groups);
  }
  StoreScales(codec, {ranges.of, static_cast<size_t>(groups)}, code + first_group * layout.metadata_bytes,
              layout.metadata_bytes, scales.of);
  alignas(64) uint32_t words[kTileElements / 4];
  uint64_t call = FirstCall(kRandom16Block, place.sample, place.elements, place.first);
  if (codec.rounding == Rounding::kStochastic)
    for (int64_t e = 0; e < place.count; e += kRandom16Block, call += kRandomLanes)
      RandomRow(random.stream, call, words + e / 4);
  encode(codec, {.x = x,
                 .group = static_cast<size_t>(group),
                 .count = static_cast<size_t>(place.count),
                 .scales = scales.of,
                 .starts = dither,
                 .words = words,
                 .payload = code + layout.payload_offset + first_group * layout.group_bytes,
                 .group_bytes = layout.group_bytes,
                 .packing = layout.packing});
}

void DecodeCodesTile(DecodeCodeGroups& decode, const Codec& codec, const CodeLayout& layout,
                     DrawnStream& random, const TilePlace& place, const uint8_t* code,
                     const DecodeEpilogue& epilogue, float* x) {
  const int64_t group = codec.group_size, first_group = place.first / group;
  OfGroups<GroupScale> scales;  // masks and indices have none
  uint32_t dither[kTileElements / kRun] = {};
  if (codec.HasLevels() && !epilogue.mask) {
    DitherStarts starts(codec, random, place.sample, layout.groups);
    for (int64_t g = 0; g * group < place.count; ++g) {
      scales.of[g] = LoadGroupScale(codec, code + (first_group + g) * layout.metadata_bytes);
      dither[g] = starts.Of(first_group + g);
    }
  }
  decode(codec, {.payload = code + layout.payload_offset + first_group * layout.group_bytes,
                 .group_bytes = layout.group_bytes,
                 .packing = layout.packing,
                 .group = static_cast<size_t>(group),
                 .count = static_cast<size_t>(place.count),
                 .scales = scales.of,
                 .starts = dither,
                 .epilogue = epilogue,
                 .x = x});
}

// ---- Tiles

// Calls f(elements, their number, their payload) for each of the tile's groups.
template <class X, class Code, class F>
void ForEachGroup(const Codec& codec, const CodeLayout& layout, const TilePlace& place, X* x, Code* code,
                  const F& f) {
  const int64_t group = codec.group_size;
  for (int64_t e = 0; e < place.count; e += group)
    f(x + e, static_cast<size_t>(std::min(group, place.count - e)),
      code + layout.payload_offset + (place.first + e) / group * layout.group_bytes);
}

// Encodes all kinds but kGroups: their functions are called outside the code for instruction sets.
void EncodeTile(const Codec& codec, const CodeLayout& layout, DrawnStream& random, const TilePlace& place,
                const float* x, uint8_t* code) {
  const auto levels = [&](EncodeLevelGroups& encode) {
    EncodeLevelsTile(encode, codec, layout, random, place, x, code);
  };
  switch (codec.kind) {
    case CodecKind::kNone:
    case CodecKind::kGroups:
      break;
    case CodecKind::kMask:
      return ForEachGroup(codec, layout, place, x, code, EncodeMaskTile);
    case CodecKind::kIndex:
      return ForEachGroup(codec, layout, place, x, code, [&](const float* e, size_t count, uint8_t* payload) {
        EncodeIndexGroup(e, count, codec.bits, payload);
      });
    case CodecKind::kUniform:
      return levels(EncodeUniform);
    case CodecKind::kSign:
      return levels(EncodeSign);
    case CodecKind::kZero:
      return levels(EncodeZero);
    case CodecKind::kCast:  // a plain array: all groups at once
      return EncodeCast(codec.cast, x, static_cast<size_t>(place.count),
                        code + layout.payload_offset + place.first / codec.group_size * layout.group_bytes);
  }
}

void DecodeTile(const Codec& codec, const CodeLayout& layout, DrawnStream& random, const TilePlace& place,
                const uint8_t* code, const DecodeEpilogue& epilogue, float* x) {
  const auto levels = [&](DecodeCodeGroups& decode) {
    DecodeCodesTile(epilogue.mask ? DecodeMasks : decode, codec, layout, random, place, code, epilogue, x);
  };
  switch (codec.kind) {
    case CodecKind::kNone:
    case CodecKind::kGroups:
      break;
    case CodecKind::kMask:
    case CodecKind::kIndex:
      return DecodeCodesTile(DecodeNumbers, codec, layout, random, place, code, epilogue, x);
    case CodecKind::kUniform:
      return levels(DecodeUniform);
    case CodecKind::kSign:
      return levels(DecodeSign);
    case CodecKind::kZero:
      return levels(DecodeZero);
    case CodecKind::kCast:
      return DecodeCast(codec.cast,
                        code + layout.payload_offset + place.first / codec.group_size * layout.group_bytes,
                        static_cast<size_t>(place.count), x);
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

namespace {

void EncodeByGroups(const Codec& codec, const CodeLayout& layout, const RandomStream& random,
                    const TilePlace& place, const float* x, uint8_t* code) {
  for (int64_t e = 0; e < place.count; e += codec.group_size) {
    const GroupPlace group = PlaceOfGroup(codec, layout, (place.first + e) / codec.group_size);
    codec.groups->encode(codec, KeyOfGroup(random, place.sample, layout, group), x + e, group.count,
                         code + group.metadata, code + group.payload);
  }
}

void DecodeByGroups(const Codec& codec, const CodeLayout& layout, const RandomStream& random,
                    const TilePlace& place, const uint8_t* code, float* x) {
  for (int64_t e = 0; e < place.count; e += codec.group_size) {
    const GroupPlace group = PlaceOfGroup(codec, layout, (place.first + e) / codec.group_size);
    codec.groups->decode(codec, KeyOfGroup(random, place.sample, layout, group), code + group.metadata,
                         code + group.payload, group.count, x + e);
  }
}

// Clears a sample's code between metadata and payload, and after the payload. This is done with the
// tile that ends the sample.
void ClearPadding(const CodeLayout& layout, const TilePlace& place, uint8_t* code) {
  if (place.first + place.count != place.elements) return;
  const auto clear = [code](int64_t from, int64_t to) {
    std::memset(code + from, 0, static_cast<size_t>(to - from));
  };
  clear(layout.groups * layout.metadata_bytes, layout.payload_offset);
  clear(layout.payload_offset + layout.payload_bytes, layout.sample_bytes);
}

// x = decoded, with the epilogue, for codecs whose decode does not apply it.
void FinishTile(const DecodeEpilogue& epilogue, size_t count, float* decoded, float* x) {
  static constexpr float kOne = 1, kNothing = -0.0f;  // -0, because -0 + 0 would be 0
  const auto number = [](const TileOperand& o, const float& otherwise) {
    return o.data ? o : TileOperand{&otherwise, true};
  };
  if (epilogue.magnitude) ApplyTile({ToTileOp(Opcode::kAbs), false}, count, {decoded}, {}, {}, decoded);
  ApplyTile({ToTileOp(Opcode::kFma), false}, count, {decoded}, number(epilogue.times, kOne),
            number(epilogue.plus, kNothing), x);
}

}  // namespace

void EncodeTile(const Codec& codec, const CodeLayout& layout, DrawnStream& random, const TilePlace& place,
                const float* x, uint8_t* code) {
  codec.groups ? EncodeByGroups(codec, layout, random.stream, place, x, code)
               : HWY_DYNAMIC_DISPATCH(EncodeTile)(codec, layout, random, place, x, code);
  ClearPadding(layout, place, code);
}
void DecodeTile(const Codec& codec, const CodeLayout& layout, DrawnStream& random, const TilePlace& place,
                const uint8_t* code, const DecodeEpilogue& epilogue, float* x) {
  if (!codec.groups && !codec.IsCast())
    return HWY_DYNAMIC_DISPATCH(DecodeTile)(codec, layout, random, place, code, epilogue, x);
  float decoded[kTileElements];  // x may be one of the epilogue's operands
  float* to = epilogue.Changes() ? decoded : x;
  codec.groups ? DecodeByGroups(codec, layout, random.stream, place, code, to)
               : HWY_DYNAMIC_DISPATCH(DecodeTile)(codec, layout, random, place, code, epilogue, to);
  if (epilogue.Changes()) FinishTile(epilogue, static_cast<size_t>(place.count), decoded, x);
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
