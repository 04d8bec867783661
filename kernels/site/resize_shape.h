// Resampling of axes as one sparse matrix per axis, whatever the mode: which elements of the input,
// with which weights, each element of the result mixes. The transposed matrices are the gradient.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/kernel.h"

namespace act {

// Element r of the result is the sum of weight * x[at] over the terms of row r, `at` ascending.
struct WeightedRows {
  struct Term {
    int64_t at = 0;
    float weight = 0;
  };
  std::vector<Term> terms = {};
  std::vector<int64_t> ends = {};  // the terms of row r end before this; they begin where row r - 1 ends
  int64_t columns = 0;             // extent of x

  int64_t rows() const { return static_cast<int64_t>(ends.size()); }
  std::span<const Term> Row(int64_t r) const {
    const int64_t begin = r > 0 ? ends[static_cast<size_t>(r - 1)] : 0;
    return std::span(terms).subspan(static_cast<size_t>(begin),
                                    static_cast<size_t>(ends[static_cast<size_t>(r)] - begin));
  }
  void EndRow() { ends.push_back(static_cast<int64_t>(terms.size())); }
};

WeightedRows Identity(int64_t extent);
WeightedRows Transposed(const WeightedRows& m);
// The matrix of two axes as one: its rows count those of `outer`, and of `inner` within each.
WeightedRows Joined(const WeightedRows& outer, const WeightedRows& inner);

// x: [batch, axes.columns.., channels] -> y: [batch, axes.rows.., channels]. `axes` are those from
// the first that is resized to the last; one between them that is not is the identity.
struct ResizeShape {
  int64_t batch = 1, channels = 1;
  std::vector<WeightedRows> axes;
};

// A resize of any number of axes as one of two: the last, and all before it.
struct PlaneRows {
  WeightedRows outer, inner;
};
// Backward: of the gradient, which takes y's extents to x's.
PlaneRows PlaneRowsOf(const ResizeShape& shape, bool backward);

// Nullopt, and the reason in `why`, where the attributes of a Resize (docs/runtime_ops.md) do not
// take x to y.
std::optional<ResizeShape> ResizeShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                         std::string* why);

}  // namespace act
