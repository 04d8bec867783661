#include "runtime/codec/encode_numbers.h"

#include <algorithm>
#include <cstring>

#include "kernels/math/level_code.h"
#include "kernels/math/level_scale.h"
#include "kernels/math/rounding.h"
#include "kernels/math/small_float.h"
#include "runtime/codec/group_code.h"

namespace act {
namespace {

constexpr int64_t kMostGroupElements = 1024;
constexpr int64_t kMostMetadataBytes = 8;  // of any codec with levels
constexpr int64_t kParallelElements = 1 << 16;

GroupRange RangeOf(std::span<const float> x) {
  GroupRange range{.lowest = x[0], .highest = x[0]};
  for (const float v : x) {
    range.lowest = std::min(range.lowest, v);
    range.highest = std::max(range.highest, v);
    range.largest_bits = std::max(range.largest_bits, BitsOf(v) & 0x7FFFFFFFu);
  }
  return range;
}

// The scale of a group whose numbers lie in the range.
GroupScale ScaleFor(const Codec& codec, const GroupRange& range, uint8_t* metadata) {
  StoreGroupScale(codec, range, metadata);
  return LoadGroupScale(codec, metadata);
}

// The squared error of numbers that are clamped to the range and rounded to its levels. It is for comparisons, so its
// last bits do not matter.
float SquaredError(const Codec& codec, const GroupRange& range, std::span<const float> x) {
  uint8_t metadata[kMostMetadataBytes];
  const GroupScale scale = ScaleFor(codec, range, metadata);
  const float inverse = 1 / scale.scale;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < x.size(); ++i) {
    const float clamped = std::min(std::max(x[i], range.lowest), range.highest);
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): a sum for comparisons may err in a last bit, and this vectorizes.
    const auto level = static_cast<float>(static_cast<int32_t>((clamped - scale.minimum) * inverse + .5f));
    const float error = x[i] - (scale.minimum + level * scale.scale);
    sum += error * error;
  }
  return sum;
}

// The range to which a group's numbers are clamped: each end moves inwards as long as that lowers the squared error.
// With few levels a narrower range has smaller steps, which outweigh the error of the numbers beyond it.
GroupRange RangeOfLeastError(const Codec& codec, std::span<const float> x) {
  GroupRange range = RangeOf(x);
  if (range.largest_bits >= kTooLargeLogBits || range.lowest == range.highest) return range;
  const float move = (range.highest - range.lowest) / static_cast<float>(2 * codec.levels);
  float least = SquaredError(codec, range, x);
  const auto moves = [&](float GroupRange::*end, float by) {
    GroupRange narrower = range;
    narrower.*end += by;
    const float error = SquaredError(codec, narrower, x);
    if (narrower.lowest >= narrower.highest || error >= least) return false;
    range = narrower;
    least = error;
    return true;
  };
  bool any = true;
  while (any) {
    any = moves(&GroupRange::lowest, move);
    any |= moves(&GroupRange::highest, -move);
  }
  return range;
}

// In a code that is 0.
void EncodeLevels(const Codec& codec, const GroupPlace& group, std::span<float> x, uint8_t* code) {
  const GroupRange range = RangeOfLeastError(codec, x);
  const GroupScale scale = ScaleFor(codec, range, code + group.metadata);
  if (!IsFinite(scale)) return;
  for (float& v : x) v = std::clamp(v, range.lowest, range.highest);
  const size_t plane_bytes = (x.size() + 7) / 8;
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t level = QuantizeLevel(codec, x[i], scale, {}, kNearestBits);
    uint8_t* at = code + group.payload + i / 8;
    for (int bit = 0; bit < codec.bits; ++bit, at += plane_bytes)
      *at = static_cast<uint8_t>(*at | (level >> bit & 1) << (i % 8));
  }
}

}  // namespace

bool EncodesNumbers(const Codec& codec) {
  if (CheckCodec(codec)) return false;
  return codec == Codec::Cast(kBFloat16) ||
         (codec.kind == CodecKind::kUniform && codec.rounding == Rounding::kNearest &&
          codec.spacing == Spacing::kEven && CodePackingOf(codec).codes == 1);
}

void EncodeNumbers(const Codec& codec, const std::byte* numbers, int64_t count, std::span<std::byte> code) {
  const CodeLayout layout = LayoutOf(codec, count);
  auto* const to = reinterpret_cast<uint8_t*>(code.data());
  std::fill(code.begin(), code.end(), std::byte{0});
#pragma omp parallel for schedule(static) if (count > kParallelElements)
  for (int64_t g = 0; g < layout.groups; ++g) {
    float x[kMostGroupElements];
    const GroupPlace group = PlaceOfGroup(codec, layout, g);
    const auto elements = static_cast<size_t>(group.count);
    std::memcpy(x, numbers + group.first * static_cast<int64_t>(sizeof(float)), elements * sizeof(float));
    if (!codec.IsCast()) {
      EncodeLevels(codec, group, {x, elements}, to);
      continue;
    }
    for (size_t i = 0; i < elements; ++i)
      PutSmallFloat(codec.cast, EncodeSmallFloat(codec.cast, x[i]), static_cast<int64_t>(i),
                    to + group.payload);
  }
}

}  // namespace act
