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

GroupRange RangeOf(std::span<const float> x) {
  GroupRange range{.lowest = x[0], .highest = x[0]};
  for (const float v : x) {
    range.lowest = std::min(range.lowest, v);
    range.highest = std::max(range.highest, v);
    range.largest_bits = std::max(range.largest_bits, BitsOf(v) & 0x7FFFFFFFu);
  }
  return range;
}

// In a code that is 0.
void EncodeLevels(const Codec& codec, const GroupPlace& group, std::span<const float> x, uint8_t* code) {
  StoreGroupScale(codec, RangeOf(x), code + group.metadata);
  const GroupScale scale = LoadGroupScale(codec, code + group.metadata);
  if (!IsFinite(scale)) return;
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
  float x[kMostGroupElements];
  for (int64_t g = 0; g < layout.groups; ++g) {
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
