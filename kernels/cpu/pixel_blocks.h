// How the pixels of a weight's gradient are divided. dw is [M, C, K..], from dy [pixels, M] and x
// [pixels, C]. Each pixel of dy is multiplied by the pixels of x that its window reads. A slot has as many
// neighbours in a row as one multiplication adds (product_slots.h).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/product_slots.h"
#include "kernels/site/window.h"

namespace act {

// Part `i` of `parts` of the range, cut at multiples of `unit` from its start.
Range Cut(Range range, int64_t unit, int64_t i, int64_t parts);

// A convolution. A matrix product is a convolution with a single row of pixels.
struct GradWeightShape : ConvShape {
  int64_t dy_pixel = 0, x_pixel = 0;  // floats from a pixel to the next

  int64_t RowTaps() const { return kernel[0] * kernel[1]; }  // of all axes but the last
  int64_t DyRows() const { return batch * out[0] * out[1]; }
  // The row of x, over all samples, that a row of dy reads by a tap of the leading axes. -1 if it
  // lies outside.
  int64_t XRow(int64_t dy_row, int64_t tap) const;
};

// Pixels of dy: rows, numbered over all samples, and columns of them.
struct Pixels {
  Range rows, columns;
};

// Part `i` of `parts` of all pixels: some of the rows, or part of a single row. Pairs stay whole.
Pixels PartOf(const GradWeightShape& shape, int64_t i, int64_t parts);

// Some pixels, and the rows of x that their windows read, as stored in packed panels.
struct Block {
  int64_t terms = 1;  // of a slot
  Pixels pixels;
  std::vector<int64_t> x_rows;             // numbered over all samples
  std::vector<std::vector<SlotRun>> runs;  // by tap of the leading axes

  int64_t DyRows() const { return pixels.rows.size(); }
  int64_t XRows() const { return std::ssize(x_rows); }
  int64_t RowSlots() const { return (pixels.columns.size() + terms - 1) / terms; }
};

// Divides pixels into blocks of at most this many slots of 1 or 2 terms, or of one row.
class PixelBlocks {
 public:
  PixelBlocks(const GradWeightShape& shape, int64_t slots, int64_t terms);

  int64_t MostRows() const { return rows_; }
  int64_t MostRowSlots() const { return (columns_ + terms_ - 1) / terms_; }
  // The most rows of x that a block reads.
  int64_t MostXRows() const;

  int64_t Count(const Pixels& pixels) const;
  // Block `number` of these pixels. Neighbours in a row follow one another.
  void Fill(const Pixels& pixels, int64_t number, Block& block) const;
  // An empty block whose vectors never grow when it is filled.
  Block Empty() const;

 private:
  int64_t InARow(const Pixels& pixels) const { return (pixels.columns.size() + columns_ - 1) / columns_; }

  GradWeightShape shape_;
  int64_t terms_, columns_, rows_;
};

}  // namespace act
