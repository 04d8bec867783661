#include "kernels/cpu/plane_groups.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/dither_starts.h"
#include "kernels/math/level_scale.h"

namespace act {
namespace {

// As the values of level_values-inl.h have them.
PlaneGroup NumbersOf(const Codec& codec, const PlaneForm& form, const uint8_t* metadata, uint32_t start) {
  const GroupScale s = LoadGroupScale(codec, metadata);
  PlaneGroup group = {};
  group.scale = s.scale * 0x1p-8f;
  group.minimum = s.minimum;
  group.other_scale = s.below * -0x1p-8f;
  group.other_minimum = form.value == PlaneValue::kZero ? s.minimum - s.minimum : -s.minimum_below;
  group.turned = (0x7FFFu - start) << 16;
  return group;
}

// Planes of `count` elements, where each would have plane_bytes if the group was whole.
const uint8_t* SpreadPlanes(const PlaneForm& form, int64_t count, const uint8_t* planes, uint8_t* to) {
  const auto bytes = static_cast<size_t>((count + 7) / 8), whole = static_cast<size_t>(form.plane_bytes);
  for (size_t b = 0; b < static_cast<size_t>(form.bits); ++b)
    std::memcpy(to + b * whole, planes + b * bytes, bytes);
  return to;
}

}  // namespace

std::optional<PlaneForm> PlaneFormOf(const Codec& codec, bool mask) {
  const CodePacking packing = CodePackingOf(codec);
  if (codec.groups || packing.codes != 1) return std::nullopt;
  PlaneForm form{.bits = packing.bits, .plane_bytes = codec.group_size / 8};
  if (codec.kind == CodecKind::kMask || codec.kind == CodecKind::kIndex) {
    if (codec.bits == 1) {
      form.value = PlaneValue::kMask;
      form.from = 1;
      form.to = 2;
    }
    return form;
  }
  if (!codec.HasLevels()) return std::nullopt;
  form.to = codec.LevelsAbove();
  if (mask) {
    form.value = PlaneValue::kMask;
    form.from = codec.kind == CodecKind::kZero ? 1 : 0;
    return form;
  }
  if (codec.spacing != Spacing::kEven) return std::nullopt;
  form.dither = codec.rounding == Rounding::kDither;
  form.value = codec.metadata == Metadata::kSides  ? PlaneValue::kSides
               : codec.kind == CodecKind::kSign    ? PlaneValue::kSign
               : codec.kind == CodecKind::kUniform ? PlaneValue::kUniform
                                                   : PlaneValue::kZero;
  return form;
}

void PlaceCode(const Codec& codec, const CodeLayout& layout, const PlaneForm& form, DrawnStream& random,
               const TilePlace& place, int64_t block, const uint8_t* code, PlacedCode& to) {
  const int64_t group = codec.group_size, first_group = place.first / group;
  const bool has_numbers = codec.HasLevels() && form.value != PlaneValue::kMask;
  DitherStarts starts(codec, random, place.sample, layout.groups);
  PlaneGroup* next = to.blocks;
  for (int64_t g = 0; g * group < place.count; ++g) {
    PlaneGroup of_group = {};
    if (has_numbers)
      of_group = NumbersOf(codec, form, code + (first_group + g) * layout.metadata_bytes,
                           starts.Of(first_group + g));
    const int64_t count = std::min(group, place.count - g * group);
    const uint8_t* planes = code + layout.payload_offset + (first_group + g) * layout.group_bytes;
    of_group.planes = count == group ? planes : SpreadPlanes(form, count, planes, to.last);
    for (int64_t e = 0; e < count; e += block) {
      *next++ = of_group;
      of_group.planes += block / 8;
      of_group.turned -= static_cast<uint32_t>(block) * kWeylStep << 16;
    }
  }
}

}  // namespace act
