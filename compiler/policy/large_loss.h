// Losses over so many classes that their scores would set the peak: a language model's.
#pragma once

#include "runtime/base/tensor_type.h"

namespace act {

// Elements of a sample's scores, 1 MiB of them. Where scores are large the loss runs for some samples at a time
// (tile-samples), from the product that makes them to those that read their gradient. So neither they nor
// their probabilities ever exist whole.
inline constexpr int64_t kLargeLossElements = int64_t{1} << 18;

// `probabilities`: the type of the values that the loss saves.
inline bool IsLargeLoss(const TensorType& probabilities) {
  return probabilities.Elements().per_batch >= kLargeLossElements;
}

}  // namespace act
