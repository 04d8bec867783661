#include "kernels/cpu/float_product.h"

#include <algorithm>

#include "kernels/cpu/vector_clones.h"
#include "runtime/base/dim.h"

namespace act {
namespace {

// A panel at a time, 16 channels by 16: a length that the compiler knows is some vectors.
template <class T>
ACT_IN_CLONES void Pack(const T* from, int64_t distance, int64_t terms, int64_t count, int64_t width,
                        int64_t depth, int64_t slot, float* panels) {
  for (int64_t panel = 0; panel < count; panel += width) {
    const int64_t columns = std::min(width, RoundUp(count - panel, kSlotLanes));
    const int64_t whole = std::min(columns, count - panel) / kSlotLanes * kSlotLanes;
    const T* row = from + panel;
    float* to = panels + panel * depth + slot * columns;
    for (int64_t k = 0; k < terms; ++k, row += distance, to += columns) {
      for (int64_t j = 0; j < whole; j += kSlotLanes)
        for (int64_t i = 0; i < kSlotLanes; ++i) to[j + i] = ToFloat(row[j + i]);
      if (whole == columns) continue;
      const int64_t rest = count - panel - whole;
      for (int64_t i = 0; i < rest; ++i) to[whole + i] = ToFloat(row[whole + i]);
      for (int64_t i = rest; i < kSlotLanes; ++i) to[whole + i] = 0;
    }
  }
}

}  // namespace

ACT_VECTOR_CLONES
void PackFloats(const float* from, int64_t distance, int64_t terms, int64_t count, int64_t width,
                int64_t depth, int64_t slot, float* panels) {
  Pack(from, distance, terms, count, width, depth, slot, panels);
}

ACT_VECTOR_CLONES
void PackFloats(const BFloat16* from, int64_t distance, int64_t terms, int64_t count, int64_t width,
                int64_t depth, int64_t slot, float* panels) {
  Pack(from, distance, terms, count, width, depth, slot, panels);
}

void PackZeros(int64_t terms, int64_t count, int64_t width, int64_t depth, int64_t slot, float* panels) {
  for (int64_t panel = 0; panel < count; panel += width) {
    const int64_t columns = std::min(width, RoundUp(count - panel, kSlotLanes));
    std::fill_n(panels + panel * depth + slot * columns, terms * columns, 0.0f);
  }
}

}  // namespace act
