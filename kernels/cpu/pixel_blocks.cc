#include "kernels/cpu/pixel_blocks.h"

#include <algorithm>

namespace act {

Range Cut(Range range, int64_t unit, int64_t i, int64_t parts) {
  const int64_t units = (range.size() + unit - 1) / unit;
  const auto at = [&](int64_t part) {
    return std::min(range.last, range.first + units * part / parts * unit);
  };
  return {at(i), at(i + 1)};
}

int64_t GradWeightShape::XRow(int64_t dy_row, int64_t tap) const {
  const int64_t o1 = dy_row % out[1], o0 = dy_row / out[1] % out[0], n = dy_row / out[1] / out[0];
  const int64_t i0 = Input(0, o0, tap / kernel[1]), i1 = Input(1, o1, tap % kernel[1]);
  return Inside(0, i0) && Inside(1, i1) ? (n * in[0] + i0) * in[1] + i1 : -1;
}

Pixels PartOf(const GradWeightShape& shape, int64_t i, int64_t parts) {
  const Range rows{0, shape.DyRows()}, columns{0, shape.out[2]};
  if (rows.size() > 1) return {Cut(rows, 1, i, parts), columns};
  return {rows, Cut(columns, 2, i, parts)};
}

PixelBlocks::PixelBlocks(const GradWeightShape& shape, int64_t slots, int64_t terms)
    : shape_(shape),
      terms_(terms),
      columns_(std::min(shape.out[2], terms * slots)),
      rows_(std::clamp<int64_t>(slots / MostRowSlots(), 1, shape.DyRows())) {}

int64_t PixelBlocks::MostXRows() const {
  const GradWeightShape& s = shape_;
  // Rows o .. o + r - 1 of one image read (r - 1) stride + window rows of x. The rows of a block
  // come from at most this many images.
  const int64_t images = (rows_ + 2 * s.out[1] - 2) / s.out[1];
  const int64_t window = (s.kernel[1] - 1) * s.dilation[1] + 1;
  const int64_t read = rows_ * s.stride[1] + images * std::max<int64_t>(0, window - s.stride[1]);
  return std::min(rows_ * s.RowTaps(), s.kernel[0] * std::min(images * s.in[1], read));
}

int64_t PixelBlocks::Count(const Pixels& pixels) const {
  return (pixels.rows.size() + rows_ - 1) / rows_ * InARow(pixels);
}

Block PixelBlocks::Empty() const {
  Block block;
  block.terms = terms_;
  block.x_rows.reserve(static_cast<size_t>(rows_ * shape_.RowTaps()));
  block.runs.resize(static_cast<size_t>(shape_.RowTaps()));
  for (auto& runs : block.runs) runs.reserve(static_cast<size_t>(rows_));
  return block;
}

void PixelBlocks::Fill(const Pixels& pixels, int64_t number, Block& block) const {
  const auto part = [](Range range, int64_t size, int64_t i) {
    return Range{range.first + i * size, std::min(range.last, range.first + (i + 1) * size)};
  };
  block.pixels = {part(pixels.rows, rows_, number / InARow(pixels)),
                  part(pixels.columns, columns_, number % InARow(pixels))};
  block.x_rows.clear();
  const int64_t slots = block.RowSlots();
  for (int64_t tap = 0; tap < shape_.RowTaps(); ++tap) {
    auto& runs = block.runs[static_cast<size_t>(tap)];
    runs.clear();
    for (int64_t row = 0; row < block.DyRows(); ++row) {
      const int64_t x_row = shape_.XRow(block.pixels.rows.first + row, tap);
      if (x_row < 0) continue;
      auto at = std::find(block.x_rows.begin(), block.x_rows.end(), x_row);
      if (at == block.x_rows.end()) at = block.x_rows.insert(at, x_row);
      const int64_t b = (at - block.x_rows.begin()) * slots, a = row * slots;
      if (!runs.empty() && runs.back().a + runs.back().slots == a && runs.back().b + runs.back().slots == b)
        runs.back().slots += slots;
      else
        runs.push_back({a, b, slots});
    }
  }
}

}  // namespace act
