// Softmax over rows. Exponentials are in float32, their sums in double.
#pragma once

#include "kernels/cuda/source/row_pass.h"
#include "kernels/cuda/source/softmax_parameters.h"

namespace act::cuda {

// What a softmax divides by: exp(x - max) / sum. A row with a NaN or an infinity, or of -infinity alone, has
// a sum that is NaN.
struct SoftmaxScale {
  float max;
  double sum;
};

template <class Shape>
ACT_DEVICE SoftmaxScale ScaleOf(const Shape& shape, Row<Shape>& x) {
  float max = -kInfinity;
  ForRow(
      shape, [&](int32_t, float v) { max = fmaxf(max, v); }, x);
  max = OverTeam<Shape::kTeam>(max, [](float a, float b) { return fmaxf(a, b); });
  double sum = 0;
  ForRow(
      shape, [&](int32_t, float v) { sum += expf(v - max); }, x);
  return {max, SumOverTeam<Shape::kTeam>(sum)};
}

// y = exp(x - max) / sum
template <class Shape>
ACT_DEVICE void StoreSoftmax(const Shape& shape, const SoftmaxScale& scale, Row<Shape>& x, float* y) {
  const auto factor = static_cast<float>(1 / scale.sum);
  MapRow(
      shape, y, [&](int32_t, float v) { return expf(v - scale.max) * factor; }, x);
}

// The row of a thread's team, and the team's threads as a shape.
template <class Shape>
ACT_DEVICE Shape ShapeOfRow(int64_t row, int64_t rows, int32_t columns) {
  return {row < rows ? columns : 0, static_cast<int32_t>(threadIdx.x % Shape::kTeam)};
}
template <class Shape>
ACT_DEVICE int64_t RowOfTeam() {
  return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / Shape::kTeam;
}

template <class Shape>
ACT_DEVICE void Softmax(const SoftmaxParameters& p) {
  const int64_t row = RowOfTeam<Shape>();
  const Shape shape = ShapeOfRow<Shape>(row, p.rows, p.columns);
  Row<Shape> x(shape, p.a + row * p.columns);
  StoreSoftmax(shape, ScaleOf(shape, x), x, p.result + row * p.columns);
}

template <class Shape>
ACT_DEVICE void LogSoftmax(const SoftmaxParameters& p) {
  const int64_t row = RowOfTeam<Shape>();
  const Shape shape = ShapeOfRow<Shape>(row, p.rows, p.columns);
  Row<Shape> x(shape, p.a + row * p.columns);
  const SoftmaxScale scale = ScaleOf(shape, x);
  const double log_sum = scale.max + log(scale.sum);
  MapRow(
      shape, p.result + row * p.columns, [&](int32_t, float v) { return static_cast<float>(v - log_sum); },
      x);
}

// dx = y (dy - sum(dy y))
template <class Shape>
ACT_DEVICE void SoftmaxGrad(const SoftmaxParameters& p) {
  const int64_t row = RowOfTeam<Shape>();
  const Shape shape = ShapeOfRow<Shape>(row, p.rows, p.columns);
  Row<Shape> dy(shape, p.a + row * p.columns), y(shape, p.b + row * p.columns);
  double sum = 0;
  ForRow(
      shape, [&](int32_t, float d, float v) { sum += static_cast<double>(d) * v; }, dy, y);
  const auto shift = static_cast<float>(SumOverTeam<Shape::kTeam>(sum));
  MapRow(
      shape, p.result + row * p.columns, [&](int32_t, float d, float v) { return v * (d - shift); }, dy, y);
}

}  // namespace act::cuda
