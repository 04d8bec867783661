#include "compiler/import/fold/lookup.h"

namespace act::onnx_import {
std::optional<Element> PositionInside(Element at, const Dim& extent, const Dim& range) {
  if (SignsOf(at, range).high < 0) at.integer = at.integer + extent;
  const Element room{extent - Dim(1) - at.integer, 0, SaturatingMul(-1, at.per_index)};
  if (SignsOf(at, range).low < 0 || SignsOf(room, range).low < 0) return std::nullopt;
  return at;
}

std::vector<int64_t> StoredStrides(const Dims& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    if (dims[i].IsFixed()) step = SaturatingMul(step, dims[i].fixed);
  }
  return strides;
}

void ForEachStored(const Dims& dims, const std::vector<int64_t>& stored,
                   llvm::function_ref<void(const Position&, size_t)> visit) {
  Position at(stored.size());
  if (const auto varying = VaryingAxis(dims)) at[*varying].per_index = 1;
  const auto count = static_cast<size_t>(ElementCount(stored));
  for (size_t i = 0; i < count; ++i) {
    visit(at, i);
    for (size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis].integer.fixed < stored[axis]) break;
      at[axis].integer.fixed = 0;
    }
  }
}

Folded Lookup(const Known& x, const Dims& dims,
              llvm::function_ref<bool(const Position& to, Position& from)> source) {
  Known result{{x.type.dtype, dims}, {}};
  if (x.IsSplat()) {
    result.elements = x.elements;
    return std::vector<Known>{std::move(result)};
  }
  const auto stored = StoredDims(dims);
  if (!stored) return std::nullopt;
  const auto varying = VaryingAxis(dims);
  const Dim range = varying ? dims[*varying] : Dim(1);
  const std::vector<int64_t> strides = StoredStrides(x.type.dims);
  Position from(x.type.dims.size());
  bool sure = true;
  result.elements.reserve(static_cast<size_t>(ElementCount(*stored)));
  ForEachStored(dims, *stored, [&](const Position& to, size_t) {
    sure = sure && source(to, from);
    int64_t linear = 0, scale = 0;  // scale, shift: the position along x's axis that varies with N
    Dim shift(0);
    for (size_t axis = 0; sure && axis < from.size(); ++axis) {
      const Dim& extent = x.type.dims[axis];
      const auto at = PositionInside(from[axis], extent, range);
      if (!at) {
        sure = false;
      } else if (!extent.IsFixed()) {
        shift = at->integer;
        scale = at->per_index;
      } else if (at->integer.IsFixed() && at->per_index == 0) {
        linear += at->integer.fixed * strides[axis];
      } else {
        sure = false;
      }
    }
    if (!sure) return;
    Element element = x.elements[static_cast<size_t>(linear)];
    if (element.per_index != 0) {
      element.integer = element.integer + shift * Dim(element.per_index);
      element.per_index = SaturatingMul(element.per_index, scale);
    }
    result.elements.push_back(element);
  });
  return sure ? std::optional(std::vector<Known>{std::move(result)}) : std::nullopt;
}

}  // namespace act::onnx_import
