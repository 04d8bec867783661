// How a convolution is divided into smaller ones, so that a copy of their operands and results stays in
// a cache. A chunk is some samples, or some rows of one sample. A row is everything at one index of the
// first spatial axis.
#pragma once

#include <cstdint>

#include "kernels/math/convert.h"
#include "kernels/site/window.h"

namespace act {

// Some rows of each of some samples. Rows before 0, or past the last one, are zeros.
struct ConvRows {
  int64_t first_sample = 0, samples = 0;
  int64_t first_row = 0, rows = 0;
};

// Channels-last activations as rows.
struct RowedTensor {
  int64_t rows = 0;        // of a sample
  int64_t row_floats = 0;  // elements

  int64_t At(const ConvRows& r) const { return (r.first_sample * rows + r.first_row) * row_floats; }
  int64_t Elements(const ConvRows& r) const;  // saturates
};

// The rows of `from` in float32.
void WidenRows(const BFloat16* from, const RowedTensor& tensor, ConvRows rows, float* to, int threads);

class ConvChunks {
 public:
  // Divides the rows of y, or with `by_input` those of x. Chunks take at most `most_floats` of x and y
  // together, if one row of each does. There are at least `workers` of them, if there are rows for
  // that, and about a multiple of it.
  ConvChunks(const ConvShape& shape, bool by_input, int64_t most_floats, int64_t workers);

  int64_t Count() const { return sample_chunks_ * row_chunks_; }
  ConvRows XRows(int64_t chunk) const;
  ConvRows YRows(int64_t chunk) const;
  // The convolution of XRows(chunk) to YRows(chunk). All full chunks have the shape of chunk 0. The
  // others, those of the last samples or rows, have the last one's.
  ConvShape ShapeOf(int64_t chunk) const;
  bool IsFull(int64_t chunk) const;

  const RowedTensor& x() const { return x_; }
  const RowedTensor& y() const { return y_; }

 private:
  int64_t DividedRows() const { return by_input_ ? x_.rows : y_.rows; }
  ConvRows Divided(int64_t chunk) const;
  // The rows on the other side that belong to some rows of the divided side.
  ConvRows Other(const ConvRows& divided) const;
  int64_t Floats(int64_t divided_rows) const;

  ConvShape shape_;
  bool by_input_;
  size_t axis_;
  RowedTensor x_, y_;
  int64_t samples_ = 1, rows_ = 1;  // of a full chunk
  int64_t sample_chunks_ = 1, row_chunks_ = 1;
};

}  // namespace act
