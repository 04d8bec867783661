// Orders of axes: a value as another one, its base, with axes in another order and, where a reshape merged
// some, in groups. Nothing here changes a graph: cancel_transposes.cc does.
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

// Moves only axes of extent 1: the elements stay in order, so a reshape does it.
bool KeepsOrder(const Dims& base, const Perm& perm);

// The last axis is where it was.
bool LastStays(const Perm& perm);

struct AxisView {
  ValueId base;
  Perm perm;                   // base axes in the order of the value's
  std::vector<size_t> groups;  // how many of them each axis of the value is; empty: one each
  bool Grouped() const { return !groups.empty(); }
  bool SameOrder(const AxisView& other) const { return perm == other.perm && groups == other.groups; }
};

// The view of a transposed value: its axis i is axis perm[i] of `view`.
AxisView Transposed(const AxisView& view, const Perm& perm);

// A reshape splits and merges axes. Of a view whose base has extents `base`, to extents `to`: where it can be
// done in the order of the base, how the base is reshaped in place of the value, and how the result lies
// then.
struct ReshapedBase {
  Dims dims;
  Perm perm;
  std::vector<size_t> groups;
};
std::optional<ReshapedBase> Reshaped(const AxisView& view, const Dims& base, const Dims& to);

}  // namespace act
