#include "kernels/cpu/widened_conv.h"

#include <algorithm>

#include "kernels/cpu/convert_bfloat16.h"

namespace act {
namespace {

// Each output pixel reads one pixel, all channels of it, inside x.
bool IsBySinglePixels(const ConvShape& s) {
  bool inside = s.KernelPixels() == 1 && s.group == 1;
  for (size_t a = 0; a < 3; ++a) inside = inside && s.pad[a] == 0 && (s.out[a] - 1) * s.stride[a] < s.in[a];
  return inside;
}

}  // namespace

WidenedShape::WidenedShape(const ConvShape& shape) : shape_(shape), widened_(shape) {
  if (!IsBySinglePixels(shape)) return;
  skips_ = shape.in != shape.out;
  widened_.rank = 1;
  widened_.in = widened_.out = {1, 1, shape.batch * shape.OutPixels()};
  widened_.batch = 1;
  widened_.stride = {1, 1, 1};
  widened_.pad_end = {};
}

void WidenedShape::WidenX(const BFloat16* x, const ConvChunks& chunks, int64_t chunk, float* to,
                          int threads) const {
  const ConvRows rows = chunks.XRows(chunk);
  if (!skips_) return WidenRows(x, chunks.x(), rows, to, threads);
  const ConvShape& s = shape_;
  // Rows of pixels of y, numbered over all samples.
  const int64_t first = rows.first_row, last = first + rows.rows, width = s.out[2];
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t row = first / width; row < CeilDiv(last, width); ++row) {
    const int64_t o1 = row % s.out[1], o0 = row / s.out[1] % s.out[0], n = row / s.out[1] / s.out[0];
    const int64_t in_row = (n * s.in[0] + o0 * s.stride[0]) * s.in[1] + o1 * s.stride[1];
    const BFloat16* from = x + in_row * s.in[2] * s.channels;
    for (int64_t p = std::max(first, row * width); p < std::min(last, (row + 1) * width); ++p)
      Widen(from + p % width * s.stride[2] * s.channels, s.channels, to + (p - first) * s.channels, 1);
  }
}

}  // namespace act
