// The elementwise part of one step of a recurrent cell, for some units of one sample. The gates of
// a unit lie `units` floats apart. A result may be stored over the operand of the same meaning
// (slopes over x).
#pragma once

#include <cstdint>

namespace act {

struct LstmCells {
  const float *x, *product;  // [4 H] each; the gates i, o, f, g are functions of their sum
  // [H]: the cell state; on entry before the step, on return after it
  float* c;
  float *y, *h;  // [H]: the new state, twice
  float *slopes, *c_by_h, *forget;
};
struct LstmGradCells {
  const float *slopes, *c_by_h, *forget;
  const float *dy, *dh;  // dy: null if there is none
  float* dc;             // on entry after the step, on return before it
  float* dgates;         // [4 H]
};

struct GruCells {
  const float *x, *product, *bias;  // bias: null if there is none
  float *h, *y;                     // h: on entry before the step, on return after it
  float *slopes, *reset, *update;
};
struct GruGradCells {
  const float *slopes, *reset, *update, *dy;
  // on entry after the step; on return the part that reaches the previous state without the weights
  float* dh;
  float* dgates;  // [4 H]: z, r, the product's part of the candidate, the candidate
};

struct RnnCells {
  const float *x, *product;
  float *y, *h;
  bool relu;
};
struct RnnGradCells {
  const float *slope, *dy, *dh;
  float* dgates;
};

// Units first .. first + count - 1.
void RunCells(const LstmCells& cells, int64_t units, int64_t first, int64_t count);
void RunCells(const LstmGradCells& cells, int64_t units, int64_t first, int64_t count);
void RunCells(const GruCells& cells, int64_t units, int64_t first, int64_t count);
void RunCells(const GruGradCells& cells, int64_t units, int64_t first, int64_t count);
void RunCells(const RnnCells& cells, int64_t units, int64_t first, int64_t count);
void RunCells(const RnnGradCells& cells, int64_t units, int64_t first, int64_t count);

}  // namespace act
