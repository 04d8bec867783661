#include "kernels/cpu/coded_numbers.h"

#include <algorithm>

#include "kernels/cpu/bfloat16_tile.h"
#include "kernels/cpu/code_tile.h"

namespace act {

template <class F>
void CodedNumbers::ForPieces(const void* code, int64_t first, int64_t count, const F& f) const {
  constexpr auto kPiece = static_cast<int64_t>(kTileElements);  // a multiple of every group
  alignas(64) float numbers[kTileElements];
  DrawnStream random;  // codes of frozen weights are rounded to nearest: nothing is drawn
  const int64_t group = codec_.group_size, last = first + count;
  for (int64_t at = first / group * group; at < last; at += kPiece) {
    // Whole groups, but for one that is cut by the end of the weight.
    const int64_t end = std::min({at + kPiece, (last + group - 1) / group * group, layout_.elements});
    DecodeTile(codec_, layout_, random,
               {.sample = 0, .elements = layout_.elements, .first = at, .count = end - at},
               static_cast<const uint8_t*>(code), {}, numbers);
    const int64_t from = std::max(at, first);
    f(numbers + (from - at), from - first, std::min(end, last) - from);
  }
}

void CodedNumbers::Read(const void* code, int64_t first, int64_t count, float* to) const {
  ForPieces(code, first, count,
            [to](const float* numbers, int64_t offset, int64_t n) { std::copy_n(numbers, n, to + offset); });
}

void CodedNumbers::Read(const void* code, int64_t first, int64_t count, BFloat16* to) const {
  ForPieces(code, first, count, [to](const float* numbers, int64_t offset, int64_t n) {
    RoundTile(static_cast<size_t>(n), numbers, to + offset);
  });
}

}  // namespace act
