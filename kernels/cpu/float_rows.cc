#include "kernels/cpu/float_rows.h"

#include <algorithm>

#include "kernels/cpu/bfloat16_tile.h"
#include "kernels/cpu/vector_clones.h"

namespace act {
namespace {

// FromFloat<BFloat16> without branches: the upper half of the result is the bfloat16.
inline uint32_t RoundedBits(float x) {
  const uint32_t bits = BitsOf(x);
  const uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1);
  return (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : rounded & 0xFFFF0000u;
}

// Scales a block at a time, which stays in the first-level cache until it is rounded.
void ScaleAndRound(const float* from, int64_t count, float factor, BFloat16* to) {
  constexpr int64_t kBlock = 256;
  float scaled[kBlock];
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t n = std::min(kBlock, count - at);
    for (int64_t i = 0; i < n; ++i) scaled[i] = from[at + i] * factor;
    RoundTile(static_cast<size_t>(n), scaled, to + at);
  }
}

}  // namespace

void ReadRows(const FloatRows& from, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  const auto* floats = static_cast<const float*>(from.data);
  const auto* halves = static_cast<const BFloat16*>(from.data);
  for (int64_t i = 0; i < rows; ++i, to += to_row) {
    if (from.code) from.code->Read(from.data, from.first + i * from.row, columns, to);
    if (from.source == FloatSource::kRoundedCode) RoundRow(columns, to, to);
    if (from.source == FloatSource::kBFloat16)
      WidenTile(static_cast<size_t>(columns), halves + i * from.row, to);
    if (from.source == FloatSource::kRounded) RoundRow(columns, floats + i * from.row, to);
    if (from.source == FloatSource::kFloat32) std::copy_n(floats + i * from.row, columns, to);
  }
}

void WriteBFloat16Rows(const float* from, int64_t from_row, int64_t rows, int64_t columns, float factor,
                       BFloat16* to, int64_t to_row) {
  for (int64_t i = 0; i < rows; ++i) {
    if (factor == 1)
      RoundTile(static_cast<size_t>(columns), from + i * from_row, to + i * to_row);
    else
      ScaleAndRound(from + i * from_row, columns, factor, to + i * to_row);
  }
}

ACT_VECTOR_CLONES
void RoundRow(int64_t count, const float* from, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = FloatOf(RoundedBits(from[i]));
}

}  // namespace act
