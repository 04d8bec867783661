#include "runtime/codec/level_codec.h"

#include <algorithm>

#include "kernels/math/level_scale.h"

namespace act::level_codec {
namespace {

// A value of an enumeration: as an attribute, and in printed names.
template <class T>
struct Named {
  T value;
  const char* attribute;
  const char* suffix;
};
constexpr Named<Rounding> kRoundings[] = {{Rounding::kStochastic, "stochastic", ""},
                                          {Rounding::kDither, "dither", ",dither"},
                                          {Rounding::kNearest, "nearest", ",nearest"}};
constexpr Named<Metadata> kMetadata[] = {{Metadata::kPair, "pair", ""},
                                         {Metadata::kLogPair, "log_pair", ",log8"},
                                         {Metadata::kSingle, "single", ",one"},
                                         {Metadata::kLogSingle, "log_single", ",one log8"},
                                         {Metadata::kSides, "sides", ",sides"}};

// Whether every value has its row, in order.
template <class T, size_t kCount>
constexpr bool NamesAll(const Named<T> (&names)[kCount], T last) {
  for (size_t i = 0; i < kCount; ++i)
    if (names[i].value != static_cast<T>(i)) return false;
  return kCount == static_cast<size_t>(last) + 1;
}
static_assert(NamesAll(kRoundings, kLastRounding) && NamesAll(kMetadata, kLastMetadata));

// The same of spacings, whose table is that of their levels.
std::string NameOf(Spacing spacing) {
  if (spacing == Spacing::kEven) return "even";
  return spacing <= kLastSpacing ? kFittedSpacings[static_cast<size_t>(spacing) - 1].name : "?";
}
Spacing SpacingNamed(const std::string& name) {
  auto spacing = Spacing::kEven;
  while (spacing <= kLastSpacing && name != NameOf(spacing))
    spacing = static_cast<Spacing>(static_cast<int>(spacing) + 1);
  return spacing;
}

// Levels begin and end with their range, ascend, and have a dither whose products are exact (whole
// numbers of 16 bits, kernels/math/fitted_levels.h).
constexpr bool IsWellFormed(const FittedShape& shape, int count) {
  constexpr int kMostDither = 32;
  if (shape.dither == 0) return shape.at[count - 1] == 0;  // none so many
  for (int i = 1; i < count; ++i)
    if (shape.at[i] <= shape.at[i - 1]) return false;
  return shape.at[0] == 0 && shape.at[count - 1] == kFittedGrid && shape.dither <= kMostDither;
}
constexpr bool AreWellFormed(const FittedSpacing& spacing) {
  for (int count = 2; count <= kMostFittedLevels; ++count)
    if (!IsWellFormed(spacing.one_side[count - 2], count) ||
        !IsWellFormed(spacing.two_sides[count - 2], count))
      return false;
  return spacing.name != nullptr;
}
static_assert(std::ranges::all_of(kFittedSpacings, AreWellFormed),
              "levels of a spacing do not ascend from 0 to 64, or its dither is not in 1..32");

template <class T, size_t kCount>
const char* SuffixOf(const Named<T> (&names)[kCount], T value) {
  return static_cast<size_t>(value) < kCount ? names[static_cast<size_t>(value)].suffix : ",?";
}

// The value that an attribute names. An absent attribute gives the first value. An unknown name
// gives a value that fails Check.
template <class T, size_t kCount>
T Read(const Attributes& attrs, const char* attribute, const Named<T> (&names)[kCount]) {
  if (!attrs.Has(attribute)) return names[0].value;
  const std::string text = attrs.String(attribute);
  for (const Named<T>& each : names)
    if (text == each.attribute) return each.value;
  return static_cast<T>(kCount);
}

std::string Forms(const Codec& codec) {
  return ",g" + std::to_string(codec.group_size) + SuffixOf(kRoundings, codec.rounding) +
         SuffixOf(kMetadata, codec.metadata) +
         (codec.spacing == Spacing::kEven ? "" : "," + NameOf(codec.spacing));
}

bool IsSign(const Codec& codec) { return codec.kind == CodecKind::kSign; }
bool IsZero(const Codec& codec) { return codec.kind == CodecKind::kZero; }

// For a spacing that is not even.
std::optional<std::string> CheckFitted(const Codec& codec) {
  for (const int count : {IsSign(codec) ? codec.below : codec.LevelsOverRange(),
                          IsSign(codec) ? codec.LevelsAbove() : codec.LevelsOverRange()})
    if (!ShapeOf(codec, count))
      return "spacing '" + NameOf(codec.spacing) + "' has no " + std::to_string(count) +
             " levels over a range";
  if (codec.rounding != Rounding::kDither) return "fitted levels are rounded with dither";
  if (!IsSign(codec) && codec.HasOneScale()) return "fitted levels of one range need its minimum";
  return std::nullopt;
}

}  // namespace

const FittedShape* ShapeOf(const Codec& codec, int count) {
  if (codec.spacing == Spacing::kEven || codec.spacing > kLastSpacing || count < 2 ||
      count > kMostFittedLevels)
    return nullptr;
  const FittedSpacing& spacing = kFittedSpacings[static_cast<size_t>(codec.spacing) - 1];
  const FittedShape& shape =
      (codec.kind == CodecKind::kUniform ? spacing.two_sides : spacing.one_side)[count - 2];
  return shape.dither == 0 ? nullptr : &shape;
}

std::string UniformName(const Codec& codec) {
  const bool planes = codec.levels == 1 << codec.bits;
  return (planes ? "uniform" + std::to_string(codec.bits)
                 : "uniform(" + std::to_string(codec.levels) + " levels)") +
         Forms(codec);
}
std::string SignName(const Codec& codec) {
  return "sign" + std::to_string(codec.LevelsAbove()) + "+" + std::to_string(codec.below) + Forms(codec);
}
std::string ZeroName(const Codec& codec) {
  return "zero+" + std::to_string(codec.LevelsOverRange()) + Forms(codec);
}

std::optional<std::string> Check(const Codec& codec) {
  const bool sign = IsSign(codec), zero = IsZero(codec);
  const int least = sign || zero ? 2 : 1;
  if (codec.bits < least || codec.bits > 8)
    return std::to_string(codec.bits) + " bits are not in " + std::to_string(least) + "..8";
  // Zero and two more, or two on each side.
  const int fewest = sign ? 4 : zero ? 3 : 2;
  if (codec.levels < fewest || codec.levels > kMostLevels)
    return std::to_string(codec.levels) + " levels are not in " + std::to_string(fewest) + ".." +
           std::to_string(kMostLevels);
  if (codec.bits != BitsOfLevels(codec.levels))
    return std::to_string(codec.levels) + " levels do not take " + std::to_string(codec.bits) + " bits";
  if (sign ? codec.below < 2 || codec.below > codec.levels - 2 : codec.below != 0)
    return std::to_string(codec.below) + " levels below zero, of " + std::to_string(codec.levels);
  if (codec.rounding > kLastRounding) return "no such rounding";
  if (codec.metadata > kLastMetadata) return "no such metadata";
  if (codec.metadata == Metadata::kSides && (!sign || codec.spacing != Spacing::kEven))
    return "minima of two sides are a sign code's, with even levels";
  if (zero && codec.metadata == Metadata::kLogSingle)
    return "a zero code's 8-bit scale has no room for where its levels start";
  if (codec.spacing > kLastSpacing) return "no such spacing of levels";
  return codec.spacing != Spacing::kEven ? CheckFitted(codec) : std::nullopt;
}

int64_t MetadataBytes(const Codec& codec) {
  switch (codec.metadata) {
    case Metadata::kPair:
      return 4;
    case Metadata::kLogPair:
      return IsSign(codec) ? 2 : 3;
    case Metadata::kSingle:
      return 2;
    case Metadata::kLogSingle:
      return 1;
    case Metadata::kSides:
      return 8;
  }
  return 0;
}

int64_t PayloadBytes(const Codec& codec, int64_t count) {
  const CodePacking packing = CodePackingOf(codec.levels);
  if (packing.codes == 1) return packing.bits * CeilDiv(count, 8);
  return CeilDiv(packing.bits * CeilDiv(count, packing.codes), 8);
}

int64_t CountNotFinite(const Codec& codec, const CodeLayout& layout, const uint8_t* code) {
  int64_t count = 0;
  for (int64_t g = 0; g < layout.groups; ++g)
    count += !IsFinite(LoadGroupScale(codec, code + g * layout.metadata_bytes));
  return count;
}

void Read(const Attributes& attrs, Codec& codec) {
  codec.levels = static_cast<int32_t>(attrs.Int("levels"));
  codec.below = static_cast<int32_t>(attrs.Int("below"));
  codec.rounding = Read(attrs, "rounding", kRoundings);
  codec.metadata = Read(attrs, "metadata", kMetadata);
  codec.spacing = SpacingNamed(attrs.String("spacing", NameOf(Spacing::kEven)));
}

void Write(const Codec& codec, Attributes& attrs) {
  const auto name = [](const auto& names, auto value) {
    return std::string(names[static_cast<size_t>(value)].attribute);
  };
  attrs.Set("levels", int64_t{codec.levels});
  if (IsSign(codec)) attrs.Set("below", int64_t{codec.below});
  attrs.Set("rounding", name(kRoundings, codec.rounding));
  // Defaults are left out.
  if (codec.metadata != Metadata::kPair) attrs.Set("metadata", name(kMetadata, codec.metadata));
  if (codec.spacing != Spacing::kEven) attrs.Set("spacing", NameOf(codec.spacing));
}

}  // namespace act::level_codec
