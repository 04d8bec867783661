#include "kernels/cpu/plane_groups.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/dither_starts.h"
#include "kernels/cpu/group_scales.h"

namespace act {
namespace {

// As the values of level_values-inl.h have them.
PlaneGroup NumbersOf(const GroupScale& s, PlaneValue value, uint32_t start) {
  PlaneGroup group = {};
  group.scale = s.scale * 0x1p-8f;
  group.minimum = s.minimum;
  group.other_scale = s.below * -0x1p-8f;
  group.other_minimum = value == PlaneValue::kZero ? s.minimum - s.minimum : -s.minimum_below;
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

// The groups of a tile.
struct Groups {
  const PlaneForm& form;
  const TilePlace& place;
  int64_t first, group_bytes, metadata_bytes;  // the number of the first one among those of the sample
  int64_t block;
  const uint8_t *metadata, *planes;  // of the first one
};

// Calls f(number of the group, its elements, its metadata) for each, and writes the blocks of what that returns.
template <class F>
void PlaceBlocks(const Groups& groups, const F& f, PlacedCode& to) {
  const int64_t group = groups.form.GroupElements();
  const uint8_t *metadata = groups.metadata, *planes = groups.planes;
  PlaneGroup* next = to.blocks;
  for (int64_t e = 0, g = groups.first; e < groups.place.count; e += group, ++g) {
    PlaneGroup of_group = f(g, metadata);
    const int64_t count = std::min(group, groups.place.count - e);
    of_group.planes = count == group ? planes : SpreadPlanes(groups.form, count, planes, to.last);
    for (int64_t i = 0; i < count; i += groups.block) {
      *next++ = of_group;
      of_group.planes += groups.block / 8;
      of_group.turned -= static_cast<uint32_t>(groups.block) * kWeylStep << 16;
    }
    metadata += groups.metadata_bytes;
    planes += groups.group_bytes;
  }
}

}  // namespace

int32_t PlaneForm::FirstOfSecondKind() const {
  if (value == PlaneValue::kZero) return 1;
  return value == PlaneValue::kSign || value == PlaneValue::kSides ? to : 0;
}

bool PlaneForm::MasksFirstKind(const PlaneForm& numbers) const {
  return value == PlaneValue::kMask && from == 0 && to > 0 && to == numbers.FirstOfSecondKind();
}

std::vector<size_t> PlaneForm::Numbers() const {
  switch (value) {
    case PlaneValue::kCode:
    case PlaneValue::kMask:
      return {};
    case PlaneValue::kUniform:
      return {kScale, kMinimum};
    case PlaneValue::kSign:
      return {kScale, kOtherScale};
    case PlaneValue::kSides:
      return {kScale, kOtherScale, kMinimum, kOtherMinimum};
    case PlaneValue::kZero:
      return {kScale, kMinimum, kOtherMinimum};
  }
  return {};
}

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
  const int64_t group = form.GroupElements(), first = place.first / group;
  const Groups groups{.form = form,
                      .place = place,
                      .first = first,
                      .group_bytes = layout.group_bytes,
                      .metadata_bytes = layout.metadata_bytes,
                      .block = block,
                      .metadata = code + first * layout.metadata_bytes,
                      .planes = code + layout.payload_offset + first * layout.group_bytes};
  if (!codec.HasLevels() || form.value == PlaneValue::kMask)
    return PlaceBlocks(
        groups, [](int64_t, const uint8_t*) { return PlaneGroup{}; }, to);
  DitherStarts starts(codec, random, place.sample, layout.groups);
  WithScaleForm(codec, [&](auto kind, auto metadata_form) {
    const CodecSpec spec = Known(codec, kind, metadata_form);
    PlaceBlocks(
        groups,
        [&](int64_t g, const uint8_t* metadata) {
          return NumbersOf(LoadGroupScale(spec, metadata), form.value, starts.Of(g));
        },
        to);
  });
}

}  // namespace act
