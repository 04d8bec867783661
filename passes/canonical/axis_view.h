// Orders of axes. An AxisView describes a value as another value, its base, with the axes in
// another order. Where a reshape merged axes, it describes them as groups. Nothing here changes a
// graph: cancel_transposes.cc does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

using Perm = std::vector<int64_t>;

Perm IdentityPerm(size_t rank);
Perm Inverse(const Perm& perm);

// Entry i of the result is base[perm[i]].
template <class T>
std::vector<T> Permute(const std::vector<T>& base, const Perm& perm) {
  std::vector<T> result;
  for (int64_t axis : perm) result.push_back(base[static_cast<size_t>(axis)]);
  return result;
}

// True if it moves only axes of extent 1. The elements then stay in order, so a reshape can do it.
bool KeepsOrder(const Dims& base, const Perm& perm);

// True if the last axis stays last.
bool LastStays(const Perm& perm);

struct AxisView {
  ValueId base;
  Perm perm;                   // base axes in the order of the value's axes
  std::vector<size_t> groups;  // the number of base axes in each axis of the value; empty: one each
  bool Grouped() const { return !groups.empty(); }
  bool SameOrder(const AxisView& other) const { return perm == other.perm && groups == other.groups; }
};

// The view of a transposed value: its axis i is axis perm[i] of `view`.
AxisView Transposed(const AxisView& view, const Perm& perm);

// A reshape splits and merges axes. For a view whose base has extents `base`, reshaped to extents
// `to`: if the reshape can be done in the order of the base, this tells how to reshape the base in
// place of the value, and how the result lies then.
struct ReshapedBase {
  Dims dims;
  Perm perm;
  std::vector<size_t> groups;
};
std::optional<ReshapedBase> Reshaped(const AxisView& view, const Dims& base, const Dims& to);

}  // namespace act
