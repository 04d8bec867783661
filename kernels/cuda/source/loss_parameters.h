#pragma once

#include <cstdint>

#include "kernels/math/step_block.h"

namespace act::cuda {

inline constexpr int kLossThreads = 256;  // of a block that works on labels alone
// Up to this many labels every block of a gradient sums their weights by itself.
inline constexpr int64_t kFewLabels = 4096;

// Of some of the rows: a loss (or the number of correct rows), and the weights of the labels.
struct LossPart {
  double sum, weight;
};

// kernels/site/loss_shape.h
struct LossParameters {
  const float* logits = nullptr;  // or prob, in the gradient
  const int64_t* label = nullptr;
  const float* class_weight = nullptr;  // may be left out
  const float* denominator = nullptr;   // of a mean; null: the sum of the weights of these labels
  float* prob = nullptr;
  void* dlogits = nullptr;
  float* loss = nullptr;
  const float* dloss = nullptr;
  LossPart* parts = nullptr;
  int64_t rows = 0, ignore_index = 0;
  int32_t classes = 0;
  int32_t part_count = 1;
  int32_t has_ignore_index = 0, mean = 0;
  FaultRecord* faults = nullptr;
  int32_t fault_site = -1;
};

}  // namespace act::cuda
