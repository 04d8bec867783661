#include "kernels/cpu/conv_chunks.h"

#include <algorithm>

#include "kernels/cpu/convert_bfloat16.h"
#include "runtime/base/dim.h"

namespace act {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -CeilDiv(-a, b); }

RowedTensor RowedTensorOf(const Window::Triple& extents, int64_t channels, size_t axis) {
  RowedTensor tensor{extents[axis], channels};
  for (size_t a = axis + 1; a < 3; ++a) tensor.row_floats = SaturatingMul(tensor.row_floats, extents[a]);
  return tensor;
}

}  // namespace

int64_t RowedTensor::Elements(const ConvRows& r) const {
  return SaturatingMul(SaturatingMul(r.samples, r.rows), row_floats);
}

void WidenRows(const BFloat16* from, const RowedTensor& tensor, ConvRows r, float* to, int threads) {
  const int64_t before = std::clamp<int64_t>(-r.first_row, 0, r.rows);
  const int64_t after = std::clamp<int64_t>(r.first_row + r.rows - tensor.rows, 0, r.rows - before);
  std::fill_n(to, before * tensor.row_floats, 0.0f);
  std::fill_n(to + (r.rows - after) * tensor.row_floats, after * tensor.row_floats, 0.0f);
  r.first_row += before;
  r.rows -= before + after;
  if (r.rows > 0) Widen(from + tensor.At(r), tensor.Elements(r), to + before * tensor.row_floats, threads);
}

ConvChunks::ConvChunks(const ConvShape& shape, bool by_input, int64_t most_floats, int64_t workers)
    : shape_(shape),
      by_input_(by_input),
      axis_(static_cast<size_t>(3 - shape.rank)),
      x_(RowedTensorOf(shape.in, shape.channels, axis_)),
      y_(RowedTensorOf(shape.out, shape.out_channels, axis_)) {
  const int64_t sample =
      SaturatingAdd(SaturatingMul(x_.rows, x_.row_floats), SaturatingMul(y_.rows, y_.row_floats));
  rows_ = DividedRows();
  if (sample <= most_floats && shape.batch >= workers) {
    const int64_t chunks = RoundUp(CeilDiv(shape.batch, most_floats / sample), workers);
    samples_ = CeilDiv(shape.batch, chunks);
  } else {
    // Rows of x start at a multiple of the stride, so that all full chunks have the same border.
    const int64_t unit = by_input ? shape.stride[axis_] : 1, units = CeilDiv(rows_, unit);
    const int64_t each = std::max<int64_t>(1, Floats(2 * unit) - Floats(unit));
    const int64_t most_units = 1 + std::max<int64_t>(0, most_floats - Floats(unit)) / each;
    const int64_t chunks = RoundUp(SaturatingMul(shape.batch, CeilDiv(units, most_units)), workers);
    rows_ = std::min(rows_, SaturatingMul(CeilDiv(units, CeilDiv(chunks, shape.batch)), unit));
  }
  sample_chunks_ = CeilDiv(shape.batch, samples_);
  row_chunks_ = CeilDiv(DividedRows(), rows_);
}

int64_t ConvChunks::Floats(int64_t divided_rows) const {
  const int64_t other = Other({0, 1, 0, divided_rows}).rows;
  return SaturatingAdd(SaturatingMul(by_input_ ? divided_rows : other, x_.row_floats),
                       SaturatingMul(by_input_ ? other : divided_rows, y_.row_floats));
}

ConvRows ConvChunks::Divided(int64_t chunk) const {
  const int64_t sample = chunk / row_chunks_ * samples_, row = chunk % row_chunks_ * rows_;
  return {sample, std::min(samples_, shape_.batch - sample), row, std::min(rows_, DividedRows() - row)};
}

ConvRows ConvChunks::Other(const ConvRows& divided) const {
  const int64_t stride = shape_.stride[axis_], pad = shape_.pad[axis_];
  const int64_t first = divided.first_row, last = first + divided.rows - 1;
  const int64_t reach = (shape_.kernel[axis_] - 1) * shape_.dilation[axis_];
  ConvRows other = divided;
  // Row o of y reads the rows from o * stride - pad to that + reach of x.
  if (!by_input_) {
    other.first_row = first * stride - pad;
    other.rows = SaturatingAdd((divided.rows - 1) * stride, reach + 1);
  } else {
    // From the first row that reads row `first`. If that row's window begins after `first`, from the
    // one before, because a convolution's border is not negative.
    other.first_row =
        std::min(FloorDiv(first + pad - reach + stride - 1, stride), FloorDiv(first + pad, stride));
    other.rows = FloorDiv(last + pad, stride) - other.first_row + 1;
  }
  return other;
}

ConvRows ConvChunks::XRows(int64_t chunk) const {
  ConvRows rows = Divided(chunk);
  if (row_chunks_ > 1) return by_input_ ? rows : Other(rows);
  rows.rows = x_.rows;
  return rows;
}

ConvRows ConvChunks::YRows(int64_t chunk) const {
  ConvRows rows = Divided(chunk);
  if (row_chunks_ > 1) return by_input_ ? Other(rows) : rows;
  rows.rows = y_.rows;
  return rows;
}

ConvShape ConvChunks::ShapeOf(int64_t chunk) const {
  const ConvRows x = XRows(chunk), y = YRows(chunk);
  ConvShape s = shape_;
  s.batch = x.samples;
  if (row_chunks_ == 1) return s;
  s.in[axis_] = x.rows;
  s.out[axis_] = y.rows;
  // Row 0 of the chunk's y reads from this row of the chunk's x on, below 0.
  s.pad[axis_] = x.first_row + shape_.pad[axis_] - y.first_row * shape_.stride[axis_];
  s.pad_end[axis_] =
      (y.rows - 1) * s.stride[axis_] + (s.kernel[axis_] - 1) * s.dilation[axis_] + 1 - s.pad[axis_] - x.rows;
  return s;
}

bool ConvChunks::IsFull(int64_t chunk) const {
  const ConvRows rows = Divided(chunk);
  return rows.samples == samples_ && rows.rows == rows_;
}

}  // namespace act
