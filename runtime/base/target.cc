#include "runtime/base/target.h"

#include <algorithm>

namespace act {
namespace {

// The number of threads that sums assume: each computes one part.
constexpr int64_t kParts = 16;
// In a loop, sums of more columns than this have few parts, to bound the scratch space.
constexpr int64_t kManyColumns = 8192, kPartsOfMany = 2;
// Limit for all parts of a shared gradient together, in float32.
constexpr int64_t kSharedBytes = 1024 * 1024;

class Cpu final : public Target {
 public:
  int64_t LoopSumParts(int64_t columns) const override {
    return columns <= kManyColumns ? kParts : kPartsOfMany;
  }
  int64_t RowSumParts(int64_t) const override { return kParts; }
  int64_t SharedGradientParts(int64_t elements) const override {
    constexpr int64_t kFloat = 4;
    return elements > 0 ? std::clamp<int64_t>(kSharedBytes / kFloat / elements, 1, kParts) : 1;
  }
};

}  // namespace

const Target& CpuTarget() {
  static const Cpu cpu;
  return cpu;
}

}  // namespace act
