// Extents of operands, read from types and attributes that nothing has checked, for bounds of scratch
// space.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/plan/graph.h"

namespace act {

inline const TensorType& TypeOf(const Graph& graph, ValueId id) { return graph.value(id).type; }

// The extent of a fixed axis, at least 1. An axis that varies with N counts as 1: no framework writes
// a convolution with such an axis after its batch axis, and a kernel that does not fit refuses
// cleanly. So does an axis that the tensor lacks.
int64_t Extent(const TensorType& type, size_t axis);

// Taps of a convolution's window, of its weights [M,C/group,K..].
int64_t WindowTaps(const TensorType& weights);

// The extents over which the products of an attention run.
struct AttentionExtents {
  Dim heads = 1;      // of q, of all samples
  int64_t group = 1;  // heads of q that read one of k
  int64_t queries = 1, keys = 1, depth = 1, value_depth = 1;
};
// q, k and v are the operands from `first` on: 0 of Attention, 1 of AttentionGrad.
AttentionExtents AttentionExtentsOf(const Graph& graph, const Node& node, size_t first);
// The most keys that `causal` and `window` of an attention leave to a query, of so many.
int64_t VisibleKeysAtMost(const Attributes& attrs, int64_t keys);

// Rows of a matrix of Det and DetGrad, whose kernels hold one outside the arena.
inline constexpr int64_t kMostDeterminantRows = 128;

// The result of an AttentionGrad that is the gradient of a bias whose extents do not vary with N.
// Null if there is none.
const TensorType* FixedBiasGradient(const Graph& graph, const Node& node);

}  // namespace act
