// Resampling by weighted rows (kernels/site/resize_shape.h): a thread makes kCount channels of one pixel,
// forward and backward, from terms in ascending order.
#pragma once

#include "kernels/cuda/source/floats.h"
#include "kernels/cuda/source/resize_parameters.h"

namespace act::cuda {

// WeightedRows, as constants of the kernel: they depend on the shape alone.
struct RowTerm {
  int32_t at;
  float weight;
};
struct RowTerms {
  const int32_t* ends;
  const RowTerm* terms;
};

template <int kCount>
ACT_DEVICE void Resize(const ResizeParameters& p, const RowTerms& outer, const RowTerms& inner) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= p.items) return;
  auto pixel = static_cast<int32_t>(thread);
  const int32_t channel = Split(p.groups, pixel) * kCount;
  int32_t sample = pixel;
  const int32_t i = Split(p.inner_rows, sample), o = Split(p.outer_rows, sample);
  Floats<kCount> sum = {};
  for (int32_t a = o > 0 ? outer.ends[o - 1] : 0; a < outer.ends[o]; ++a) {
    const int64_t line = sample * p.outer_columns + outer.terms[a].at;
    for (int32_t b = i > 0 ? inner.ends[i - 1] : 0; b < inner.ends[i]; ++b) {
      Floats<kCount> x;
      LoadFloats(p.from + (line * p.inner_columns + inner.terms[b].at) * p.channels + channel, x);
      const float weight = outer.terms[a].weight * inner.terms[b].weight;
      for (int j = 0; j < kCount; ++j) sum.at[j] = MulAdd(weight, x.at[j], sum.at[j]);
    }
  }
  StoreFloats(p.to + int64_t{pixel} * p.channels + channel, sum);
}

}  // namespace act::cuda
