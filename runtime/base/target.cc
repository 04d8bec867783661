#include "runtime/base/target.h"

#include <algorithm>

namespace act {
namespace {

// Threads that sums have in mind: each takes a part.
constexpr int64_t kParts = 16;
// A loop's sums of more columns are made in few parts, to bound the scratch space.
constexpr int64_t kManyColumns = 8192, kPartsOfMany = 2;
// All parts of a shared gradient, in float32.
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
