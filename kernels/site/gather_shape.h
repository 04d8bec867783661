// What Gather and Scatter share: where the rows of the small tensor lie in the large one.
#pragma once

#include <optional>
#include <string>
#include <type_traits>

#include "kernels/site/dereference.h"
#include "kernels/site/strided.h"
#include "runtime/executor/kernel.h"

namespace act {

// `part`, plain row-major, is cut into rows of `length` elements that share one index. Row r is the
// row of `whole` that starts at whole.At(r) + step * (its index).
struct LookupShape {
  Strided whole;        // over the rows; stride 0 on the axis
  Strided index;        // the place of each row's index
  int64_t length = 1;   // elements of a row; contiguous in both
  int64_t extent = 0;   // of the axis in `whole`: indices are -extent..extent-1
  int64_t step = 1;     // elements of `whole` from one index to the next
  int64_t indices = 0;  // elements of the index tensor
  DType index_dtype = DType::kInt64;
  // The flag of row r, if there are flags: r / live_rows % live_extent.
  int64_t live_rows = 1, live_extent = 1;

  int64_t Rows() const { return whole.Elements(); }
  // "index 12 at [3,0] is outside -5..4", or empty if all are in range.
  std::string CheckIndices(const TensorView& indices) const;
};

// `live` may be null.
std::optional<LookupShape> LookupShapeOf(const Attributes& attrs, const TensorView& whole,
                                         const TensorView& part, const TensorView& index,
                                         const TensorView* live, std::string* why);

// Index i as a position counted from the front.
inline int64_t IndexAt(const TensorView& index, int64_t i, int64_t extent) {
  const int64_t at = index.dtype == DType::kInt64 ? index.as<int64_t>()[i] : index.as<int32_t>()[i];
  return at < 0 ? at + extent : at;
}

inline bool IsLive(const TensorView& live, int64_t i) {
  return live.dtype == DType::kFloat32 ? live.as<float>()[i] != 0 : live.as<uint8_t>()[i] != 0;
}

enum class Reduction { kNone, kAdd, kMul, kMin, kMax };

// Of the operator Scatter: of the update in the result, which has the dims of the operand that it is
// written into, if there is one.
struct ScatterShape {
  LookupShape lookup;
  Reduction reduction = Reduction::kNone;
};
std::optional<ScatterShape> ScatterShapeOf(const KernelSite& site, std::string* why);

// Numbers alone can be combined, f32 and integers. NaN wins, and integers wrap.
template <class T>
T Reduce(Reduction reduction, T a, T b) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  // A NaN is told by b != b, for integers too: NOLINTBEGIN(misc-redundant-expression)
  switch (reduction) {
    case Reduction::kNone:
      return b;
    case Reduction::kAdd:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    case Reduction::kMul:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case Reduction::kMin:
      return b < a || b != b ? b : a;
    case Reduction::kMax:
      return b > a || b != b ? b : a;
  }
  // NOLINTEND(misc-redundant-expression)
  return b;
}

}  // namespace act
