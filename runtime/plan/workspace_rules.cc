#include "runtime/plan/workspace_rules.h"

#include <algorithm>

#include "runtime/plan/recurrent_signature.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr int64_t kFloat = 4;
// The number of threads that a bound assumes. oneDNN keeps buffers per thread.
constexpr int64_t kThreads = 16;
// What any primitive may need in addition to its large buffers. Measured: 4 KiB, and 4 KiB
// per thread.
constexpr int64_t kSmallScratch = 128 * kKiB;

const TensorType& TypeOf(const Graph& graph, ValueId id) { return graph.value(id).type; }

// The extent of a fixed axis. An axis that varies with N counts as 1: no framework writes a
// convolution with such an axis after its batch axis, and a kernel that does not fit
// refuses cleanly.
int64_t Extent(const TensorType& type, size_t axis) {
  return axis < type.dims.size() && type.dims[axis].IsFixed() ? std::max<int64_t>(type.dims[axis].fixed, 1)
                                                              : 1;
}

// Buffers of `bytes`, one per thread: for all threads if these take at most `small` bytes,
// otherwise `small` bytes, but at least `at_least` buffers.
int64_t PerThread(int64_t bytes, int64_t at_least, int64_t small) {
  return std::min(SaturatingMul(bytes, kThreads), std::max(SaturatingMul(bytes, at_least), small));
}

// Weights [M,C/group,K..] in oneDNN's blocked layout, which rounds channels up to blocks of 16, and
// depthwise groups likewise. One part in 32 is added because oneDNN may pad rows to keep them from
// falling on the same cache lines.
int64_t PackedWeights(const TensorType& w, int64_t group) {
  const int64_t m = Extent(w, 0) / std::max<int64_t>(group, 1), c = Extent(w, 1);
  int64_t taps = 1;
  for (size_t axis = 2; axis < w.dims.size(); ++axis) taps = SaturatingMul(taps, Extent(w, axis));
  const bool depthwise = group > 1 && m <= 1 && c == 1;
  const int64_t channels =
      depthwise ? RoundUp(group, 16) : SaturatingMul(group, SaturatingMul(RoundUp(m, 16), RoundUp(c, 16)));
  const int64_t bytes = SaturatingMul(SaturatingMul(channels, taps), kFloat);
  return RoundUp(SaturatingAdd(bytes, bytes / 32), 64);
}

// One sample of channels-last `activation`, with a border of `border` pixels on each side.
int64_t Image(const TensorType& activation, int64_t border) {
  int64_t bytes = kFloat;
  for (size_t axis = 1; axis < activation.dims.size(); ++axis) {
    const bool spatial = axis + 1 < activation.dims.size();
    bytes = SaturatingMul(bytes, SaturatingAdd(Extent(activation, axis), spatial ? 2 * border : 0));
  }
  return SaturatingAdd(bytes, 16 * kKiB);
}

bool HasStride(const Node& node) {
  const std::vector<int64_t> strides = node.attrs.Ints("strides");
  return std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s > 1; });
}

int64_t WeightsWorkspace(const TensorType& w, const Node& node) {
  return SaturatingAdd(PackedWeights(w, node.attrs.Int("group", 1)), kSmallScratch);
}

// The extent of logical axis `axis` of an operand of attention.
int64_t LogicalExtent(TensorType type, const Node& node, const char* perm_name, size_t from_last) {
  const int64_t packed = node.attrs.Int("packed", -1);
  if (packed >= 0 && packed < static_cast<int64_t>(type.dims.size()))
    type.dims.erase(type.dims.begin() + packed);
  const size_t rank = type.dims.size();
  if (rank < from_last) return 1;
  const std::vector<int64_t> perm = node.attrs.Ints(perm_name);
  const size_t axis = rank - from_last;
  return Extent(type, perm.size() == rank ? static_cast<size_t>(perm[axis]) : axis);
}

// The extents over which the products of an attention run.
struct AttentionExtents {
  int64_t queries = 1, keys = 1, depth = 1, value_depth = 1;
};

// q, k and v are the operands from `first` on.
AttentionExtents ExtentsOf(const Graph& graph, const Node& node, size_t first) {
  const TensorType &q = TypeOf(graph, node.inputs[first]), &k = TypeOf(graph, node.inputs[first + 1]),
                   &v = TypeOf(graph, node.inputs[first + 2]);
  return {.queries = LogicalExtent(q, node, "perm_q", 2),
          .keys = LogicalExtent(k, node, "perm_k", 2),
          .depth = LogicalExtent(q, node, "perm_q", 1),
          .value_depth = LogicalExtent(v, node, "perm_v", 1)};
}

}  // namespace

Dim LoopWorkspace(const Graph& graph, const Node& node, const Target& target) {
  std::vector<TensorType> outputs;
  for (const ValueId id : node.outputs) outputs.push_back(TypeOf(graph, id));
  return FusedWorkspaceBound(node.program, outputs, target);
}

Dim ConvWorkspace(const Graph& graph, const Node& node, const Target&) {
  return WeightsWorkspace(TypeOf(graph, node.inputs[1]), node);
}

// With strides, one image of dy at a time is spread out, in a buffer per thread.
Dim ConvGradInputWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType &dy = TypeOf(graph, node.inputs[0]), &w = TypeOf(graph, node.inputs[1]);
  const int64_t spread = HasStride(node) ? PerThread(Image(dy, 1), 4, 4 * kMiB) : 0;
  return SaturatingAdd(WeightsWorkspace(w, node), spread);
}

// Threads that share a weight sum into copies of dw of their own, which are then added. A strided
// pointwise convolution gathers the pixels of x that it reads.
Dim ConvGradWeightWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType &dy = TypeOf(graph, node.inputs[0]), &x = TypeOf(graph, node.inputs[1]),
                   &dw = TypeOf(graph, node.outputs[0]);
  const int64_t copies = PerThread(PackedWeights(dw, node.attrs.Int("group", 1)), 0, 4 * kMiB);
  int64_t gathered = 0;
  bool pointwise = true;
  for (size_t axis = 2; axis < dw.dims.size(); ++axis) pointwise = pointwise && Extent(dw, axis) == 1;
  if (HasStride(node) && pointwise) {
    TensorType image = dy;
    if (!image.dims.empty() && !x.dims.empty()) image.dims.back() = x.dims.back();
    gathered = PerThread(Image(image, 0), 4, 4 * kMiB);
  }
  return SaturatingAdd(WeightsWorkspace(dw, node), SaturatingAdd(copies, gathered));
}

// For an operand that must be copied: one block of 64 columns and at most 1024 rows per thread. If
// the blocks do not fit, another of oneDNN's implementations needs none.
Dim MatMulWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType& a = TypeOf(graph, node.inputs[0]);
  const bool trans_a = node.attrs.Int("trans_a") != 0;
  const size_t k_axis = a.dims.size() - (trans_a ? 2 : 1);
  const bool fixed = a.dims.size() >= 2 && a.dims[k_axis].IsFixed();
  const int64_t k = fixed ? std::min<int64_t>(RoundUp(Extent(a, k_axis), 64), 1024) : 1024;
  const int64_t block = k * 64 * kFloat;
  return std::min(kThreads * (block * (trans_a ? 2 : 1) + 16 * kKiB), 2560 * kKiB);
}

Dim AttentionWorkspace(const Graph& graph, const Node& node, const Target&) {
  const AttentionExtents e = ExtentsOf(graph, node, 0);
  return PerThread(AttentionThreadBytes(e.queries, e.keys, e.depth), 4, 8 * kMiB);
}

// If heads or samples share a bias, its gradient is computed in several partial sums.
Dim AttentionGradWorkspace(const Graph& graph, const Node& node, const Target& target) {
  const AttentionExtents e = ExtentsOf(graph, node, 1);
  const bool capped = node.attrs.Float("softcap") > 0;
  const int64_t threads =
      PerThread(AttentionGradThreadBytes(e.queries, e.keys, e.depth, e.value_depth, capped), 4, 8 * kMiB);
  const size_t of_bias = node.attrs.Has("packed") ? 1 : 3;
  if (node.outputs.size() <= of_bias) return threads;
  const TensorType& d_bias = TypeOf(graph, node.outputs[of_bias]);
  if (d_bias.dims.empty() || !d_bias.Elements().IsFixed()) return threads;
  const int64_t elements = d_bias.Elements().fixed, parts = target.SharedGradientParts(elements);
  return SaturatingAdd(threads, parts > 1 ? SaturatingMul(elements, parts * kFloat) + 64 : 0);
}

// Packed weights [G H,H] in blocks of 64, and rows of (G + 1) H floats for each sample: the state
// and its products, or the gradients of the gates.
Dim RecurrentWorkspace(const Graph& graph, const Node& node, const Target&) {
  const size_t weights_at = FindRecurrentSignature(node.op)->inputs.find('W');
  const TensorType &weights = TypeOf(graph, node.inputs[weights_at]), &x = TypeOf(graph, node.inputs[0]);
  const int64_t rows = RoundUp(Extent(weights, 0), 64), columns = RoundUp(Extent(weights, 1), 64);
  const int64_t packed = SaturatingMul(SaturatingMul(rows, columns), kFloat);
  const int64_t fixed = SaturatingAdd(packed, kSmallScratch);
  const int64_t per_sample = SaturatingMul(SaturatingAdd(Extent(weights, 0), Extent(weights, 1)), kFloat);
  return Dim(fixed) + (x.dims.empty() ? Dim(0) : x.dims[0]) * Dim(per_sample);
}

Dim BatchNormWorkspace(const Graph& graph, const Node& node, const Target& target) {
  const int64_t channels = std::min(Extent(TypeOf(graph, node.outputs[0]), 0), kTooLarge / 1024);
  return SaturatingMul(target.RowSumParts(channels), BatchNormPartBytes(channels));
}

Dim ReduceWorkspace(const Graph& graph, const Node& node, const Target& target) {
  const Dim kept = TypeOf(graph, node.outputs[0]).Elements();
  if (!kept.IsFixed()) return 0;
  const int64_t columns = std::min(kept.fixed, kMiB);
  return std::min(SaturatingMul(target.RowSumParts(columns), ReducePartBytes(columns)), kMiB);
}

}  // namespace act
