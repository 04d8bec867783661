#include "runtime/train/series.h"

#include <algorithm>
#include <cmath>

namespace act {

Series::Series(size_t most_buckets) : most_(most_buckets) { buckets_.reserve(most_); }

void Series::Add(uint64_t step, double value) {
  if (!std::isfinite(value)) return;
  if (buckets_.size() == most_ && buckets_.back().count == width_) {
    for (size_t i = 0; i < most_ / 2; ++i) {
      const Bucket &a = buckets_[2 * i], &b = buckets_[2 * i + 1];
      buckets_[i] = {.first = a.first,
                     .last = b.last,
                     .count = a.count + b.count,
                     .min = std::min(a.min, b.min),
                     .max = std::max(a.max, b.max),
                     .sum = a.sum + b.sum};
    }
    buckets_.resize(most_ / 2);
    width_ *= 2;
  }
  if (buckets_.empty() || buckets_.back().count == width_) {
    buckets_.push_back({.first = step, .last = step, .count = 1, .min = value, .max = value, .sum = value});
    return;
  }
  Bucket& bucket = buckets_.back();
  bucket.last = step;
  ++bucket.count;
  bucket.min = std::min(bucket.min, value);
  bucket.max = std::max(bucket.max, value);
  bucket.sum += value;
}

}  // namespace act
