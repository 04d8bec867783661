// Resampling by weighted rows (kernels/site/resize_shape.h): a thread makes kCount channels of one pixel, forward and
// backward, from terms in ascending order.
#pragma once

#include "kernels/cuda/source/floats.h"
#include "kernels/cuda/source/resize_parameters.h"

namespace act::cuda {

template <int kCount>
ACT_DEVICE void Resize(const ResizeParameters& p) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= p.items) return;
  auto pixel = static_cast<int32_t>(thread);
  const int32_t channel = Split(p.groups, pixel) * kCount;
  int32_t sample = pixel;
  const int32_t i = Split(p.inner_rows, sample), o = Split(p.outer_rows, sample);
  const int64_t outer_end = Load(p.outer.ends + o), inner_end = Load(p.inner.ends + i),
                inner_begin = i > 0 ? Load(p.inner.ends + i - 1) : 0;
  Floats<kCount> sum = {};
  for (int64_t a = o > 0 ? Load(p.outer.ends + o - 1) : 0; a < outer_end; ++a) {
    const int64_t line = sample * p.outer_columns + Load(&p.outer.terms[a].at);
    const float weight = Load(&p.outer.terms[a].weight);
    for (int64_t b = inner_begin; b < inner_end; ++b) {
      Floats<kCount> x;
      LoadFloats(p.from + (line * p.inner_columns + Load(&p.inner.terms[b].at)) * p.channels + channel, x);
      const float both = weight * Load(&p.inner.terms[b].weight);
      for (int j = 0; j < kCount; ++j) sum.at[j] = MulAdd(both, x.at[j], sum.at[j]);
    }
  }
  StoreFloats(p.to + int64_t{pixel} * p.channels + channel, sum);
}

}  // namespace act::cuda
