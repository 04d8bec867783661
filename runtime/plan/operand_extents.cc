#include "runtime/plan/operand_extents.h"

#include <algorithm>
#include <vector>

namespace act {
namespace {

// The dims of an operand of attention in the order in which the operator is defined.
Dims LogicalDims(const TensorType& type, const Node& node, const char* perm_name) {
  Dims dims = type.dims;
  const int64_t packed = node.attrs.Int("packed", -1);
  if (packed >= 0 && packed < static_cast<int64_t>(dims.size())) dims.erase(dims.begin() + packed);
  const std::vector<int64_t> perm = node.attrs.Ints(perm_name);
  if (perm.size() != dims.size()) return dims;
  Dims logical;
  for (const int64_t axis : perm)
    logical.push_back(axis >= 0 && axis < static_cast<int64_t>(dims.size()) ? dims[static_cast<size_t>(axis)]
                                                                            : Dim(1));
  return logical;
}

int64_t Fixed(const Dim& dim) { return dim.IsFixed() ? std::max<int64_t>(dim.fixed, 1) : 1; }

int64_t FromLast(const Dims& dims, size_t from_last) {
  return dims.size() < from_last ? 1 : Fixed(dims[dims.size() - from_last]);
}

}  // namespace

int64_t Extent(const TensorType& type, size_t axis) {
  return axis < type.dims.size() ? Fixed(type.dims[axis]) : 1;
}

int64_t WindowTaps(const TensorType& weights) {
  int64_t taps = 1;
  for (size_t axis = 2; axis < weights.dims.size(); ++axis) taps = SaturatingMul(taps, Extent(weights, axis));
  return taps;
}

AttentionExtents AttentionExtentsOf(const Graph& graph, const Node& node, size_t first) {
  const Dims q = LogicalDims(TypeOf(graph, node.inputs[first]), node, "perm_q"),
             k = LogicalDims(TypeOf(graph, node.inputs[first + 1]), node, "perm_k"),
             v = LogicalDims(TypeOf(graph, node.inputs[first + 2]), node, "perm_v");
  AttentionExtents e{.group = std::max<int64_t>(FromLast(q, 3) / FromLast(k, 3), 1),
                     .queries = FromLast(q, 2),
                     .keys = FromLast(k, 2),
                     .depth = FromLast(q, 1),
                     .value_depth = FromLast(v, 1)};
  for (size_t axis = 0; axis + 2 < q.size(); ++axis) e.heads = e.heads * q[axis];
  return e;
}

int64_t VisibleKeysAtMost(const Attributes& attrs, int64_t keys) {
  if (attrs.Int("causal") == 0 || attrs.Int("window") == 0) return keys;
  const int64_t before_last =
      SaturatingAdd(attrs.Int("causal_offset"), SaturatingMul(attrs.Int("window_offset"), -1));
  return std::clamp<int64_t>(SaturatingAdd(before_last, 1), 0, keys);
}

const TensorType* FixedBiasGradient(const Graph& graph, const Node& node) {
  const size_t of_bias = node.attrs.Has("packed") ? 1 : 3;
  if (node.outputs.size() <= of_bias) return nullptr;
  const TensorType& d_bias = TypeOf(graph, node.outputs[of_bias]);
  return d_bias.dims.empty() || !d_bias.Elements().IsFixed() ? nullptr : &d_bias;
}

}  // namespace act
