#include "kernels/cpu/float_rows.h"

#include <algorithm>

#include "kernels/cpu/vector_clones.h"
#include "kernels/math/bfloat16.h"

namespace act {
namespace {

// FromFloat<BFloat16> without branches: the upper half of the result is the bfloat16.
inline uint32_t RoundedBits(float x) {
  const uint32_t bits = BitsOf(x);
  const uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1);
  return (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : rounded & 0xFFFF0000u;
}

ACT_VECTOR_CLONES
void WidenRow(const uint16_t* __restrict from, int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = FloatFromBFloat16(from[i]);
}

ACT_VECTOR_CLONES
void RoundRowTo(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = FloatOf(RoundedBits(from[i]));
}

ACT_VECTOR_CLONES
void NarrowRow(const float* __restrict from, int64_t count, float factor, uint16_t* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(RoundedBits(from[i] * factor) >> 16);
}

}  // namespace

void ReadRows(const FloatRows& from, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  const auto* floats = static_cast<const float*>(from.data);
  const auto* halves = static_cast<const uint16_t*>(from.data);
  for (int64_t i = 0; i < rows; ++i, to += to_row) {
    if (from.source == FloatSource::kBFloat16) WidenRow(halves + i * from.row, columns, to);
    if (from.source == FloatSource::kRounded) RoundRowTo(floats + i * from.row, columns, to);
    if (from.source == FloatSource::kFloat32) std::copy_n(floats + i * from.row, columns, to);
  }
}

void WriteBFloat16Rows(const float* from, int64_t from_row, int64_t rows, int64_t columns, float factor,
                       uint16_t* to, int64_t to_row) {
  for (int64_t i = 0; i < rows; ++i) NarrowRow(from + i * from_row, columns, factor, to + i * to_row);
}

void RoundRow(int64_t count, float* x) { RoundRowTo(x, count, x); }

}  // namespace act
