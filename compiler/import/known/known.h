// Tensors known during import: the small integer tensors that exporters compute shapes with
// (elements polynomial in the batch size N), and their float constants. Folding works on these;
// they reach the graph only where an op needs one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/dtype_kind.h"
#include "runtime/plan/graph.h"

namespace act::onnx_import {

// The most elements that folding makes, so that a small file cannot ask for a huge tensor. A mask
// over 1024 x 1024 positions still folds.
inline constexpr int64_t kMaxKnownElements = 1 << 21;

struct Element {
  Dim integer;            // integer and bool types
  double real = 0;        // float types; values of f32 are rounded to float
  int64_t per_index = 0;  // integer types: times the position along the axis that varies with N is added
  // The length of a selection (importer.h): not known, `integer` is the most that it can be.
  bool counted = false;
  // Where the element is that length itself: which of the `integer` places exist.
  ValueId live = kNoValue;
  bool operator==(const Element&) const = default;
};

// One axis may vary with N. Its positions share the stored elements, except for a part that grows
// with the position: Range(0, N) is the one element 0 + 1 * position.
struct Known {
  TensorType type;
  std::vector<Element>
      elements;  // row-major over StoredDims; or a single one that fills all of `type`, whatever its dims

  bool IsSplat() const { return elements.size() == 1 && elements[0].per_index == 0; }
  bool IsCounted() const;  // whether an element is counted
};

// 1-D i64 tensor, the form of shapes.
Known IntegerVector(const Dims& values);
Known IntegerScalar(const Dim& value);
Known RealScalar(DType dtype, double value);
// An element of the type, rounded or truncated as storing it would.
Element RealElement(DType dtype, double value);

// The elements as dims; nullopt for float tensors and for splats whose length is not fixed.
std::optional<Dims> AsDims(const Known& known);
// The elements as integers; nullopt where one varies with N.
std::optional<std::vector<int64_t>> AsIntegers(const Known& known);
// The value that every element has, for float and fixed integer tensors.
std::optional<double> AsReal(const Known& known);

// The dims, where all are fixed and the tensor is small enough to be held element by element.
std::optional<std::vector<int64_t>> FixedDims(const Dims& dims);
// The same with extent 1 for the one axis that may vary with N.
std::optional<std::vector<int64_t>> StoredDims(const Dims& dims);
// The axis that varies with N, the first where a splat has several; nullopt where there is none.
std::optional<size_t> VaryingAxis(const Dims& dims);
// All stored elements of `known` broadcast to the stored dims of another tensor, row-major; its own
// dims must broadcast to them.
std::vector<Element> BroadcastElements(const Known& known, const std::vector<int64_t>& dims);

// The signs that a value has for some N >= 1: all of low..high, each -1, 0 or 1.
struct Signs {
  int low = -1, high = 1;
};
Signs SignsOf(const Dim& value);
// The same for an element at any position along an axis of this extent.
Signs SignsOf(const Element& value, const Dim& extent);
// Sign of a - b for every N >= 1: -1, 0, 1, or nullopt where it depends on N.
std::optional<int> Compare(const Dim& a, const Dim& b);

}  // namespace act::onnx_import
