// A number of each step of a run, in memory that does not grow with the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace act {

// Neighbouring steps share a bucket once there are more steps than buckets. It keeps their extremes, so a
// spike of one step stays visible in a run of any length.
class Series {
 public:
  struct Bucket {
    uint64_t first = 0, last = 0;  // steps
    int64_t count = 0;             // values between them
    double min = 0, max = 0, sum = 0;
    double Mean() const { return sum / static_cast<double>(count); }
  };

  // An even number of buckets. Their memory is taken here.
  explicit Series(size_t most_buckets = kBuckets);
  // Steps may not fall. A value that is not finite is left out.
  void Add(uint64_t step, double value);
  const std::vector<Bucket>& buckets() const { return buckets_; }

  // More than a picture of a thousand points shows apart.
  static constexpr size_t kBuckets = 600;

 private:
  const size_t most_;
  std::vector<Bucket> buckets_;
  int64_t width_ = 1;  // values of a full bucket
};

}  // namespace act
