#include "runtime/plan/sample_loops.h"

#include <algorithm>

#include "runtime/plan/alias.h"

namespace act {
namespace {

const TensorType& TypeOf(const Graph& graph, ValueId id) { return graph.value(id).type; }

// All axes but the first are fixed, and the first is a multiple of N.
bool SamplesLead(const Dims& dims) {
  return !dims.empty() && dims[0].fixed == 0 && dims[0].per_batch > 0 && dims[0].per_batch2 == 0 &&
         std::all_of(dims.begin() + 1, dims.end(), [](const Dim& d) { return d.IsFixed(); });
}

bool IsSlice(const Graph& graph, ValueId id) { return TileRoleOf(TypeOf(graph, id)) == TileRole::kSlice; }

// a [..,M,K] times b [..,K,P]: rows of a, or a product of its own, belong to a sample; or the product sums
// over samples, which are the rows of both.
std::optional<std::string> WhyNotTileableMatMul(const Graph& graph, const Node& node) {
  if (node.inputs.size() < 2 || node.outputs.size() != 1) return "has other operands than a product";
  const ValueId a = node.inputs[0], b = node.inputs[1];
  if (a == kNoValue || b == kNoValue) return "lacks an operand";
  const size_t rank_a = TypeOf(graph, a).dims.size(), rank_b = TypeOf(graph, b).dims.size();
  const bool trans_a = node.attrs.Int("trans_a") != 0, trans_b = node.attrs.Int("trans_b") != 0;
  if (!IsSlice(graph, a)) return "its first operand is not of samples";
  if (!IsSlice(graph, node.outputs[0])) {
    const bool sums =
        rank_a == 2 && rank_b == 2 && trans_a && !trans_b && IsSlice(graph, b) && node.inputs.size() == 2;
    return sums ? std::nullopt : std::optional<std::string>("is no sum over samples");
  }
  if (IsSlice(graph, b)) {
    const bool batched =
        rank_a >= 3 && rank_a == rank_b && TypeOf(graph, a).dims[0] == TypeOf(graph, b).dims[0];
    return batched ? std::nullopt : std::optional<std::string>("mixes samples");
  }
  return rank_b == 2 && (!trans_a || rank_a >= 3) ? std::nullopt
                                                  : std::optional<std::string>("mixes samples");
}

std::optional<std::string> WhyNotTileableFused(const Graph& graph, const Node& node) {
  if (!SamplesLead(node.program.space)) return "does not go over samples";
  if (static_cast<size_t>(node.program.row_axes) >= node.program.space.size())
    return "its rows hold several samples";
  if (node.program.outputs.size() < node.outputs.size()) return "has results that its program does not make";
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const bool sum = node.program.outputs[i].kind == OutputKind::kSum;
    if (IsSlice(graph, node.outputs[i]) == sum) return "a result is neither of samples nor a sum over them";
    if (sum && TypeOf(graph, node.outputs[i]).dtype != DType::kFloat32) return "a sum that is not f32";
  }
  return std::nullopt;
}

bool IsOneOf(const std::string& op, std::initializer_list<const char*> ops) {
  return std::any_of(ops.begin(), ops.end(), [&op](const char* o) { return op == o; });
}

}  // namespace

int64_t TileSamples(const SampleLoop& loop, int64_t batch) {
  const int64_t samples = (batch + loop.tiles - 1) / loop.tiles;
  return std::max<int64_t>(1, std::min(batch, std::max(samples, loop.least_samples)));
}

TileRole TileRoleOf(const TensorType& type) {
  if (SamplesLead(type.dims)) return TileRole::kSlice;
  const bool fixed =
      std::all_of(type.dims.begin(), type.dims.end(), [](const Dim& d) { return d.IsFixed(); });
  return fixed ? TileRole::kSame : TileRole::kNone;
}

std::optional<std::string> WhyNotTileable(const Graph& graph, const Node& node) {
  if (!node.mutates.empty()) return "writes in place";
  if (node.phase == Phase::kUpdate) return "is part of the update";
  bool slices = false;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const TileRole role = TileRoleOf(TypeOf(graph, id));
    if (role == TileRole::kNone) return "an operand has samples not one behind the other";
    slices |= role == TileRole::kSlice;
  }
  if (!slices) return "reads no samples";
  for (const ValueId id : node.outputs)
    if (TileRoleOf(TypeOf(graph, id)) == TileRole::kNone)
      return "a result has samples not one behind the other";
  if (node.op == "Fused") return WhyNotTileableFused(graph, node);
  if (node.op == "MatMul") return WhyNotTileableMatMul(graph, node);
  const auto slice = [&](const std::vector<ValueId>& ids, size_t i) {
    return i < ids.size() && ids[i] != kNoValue && IsSlice(graph, ids[i]);
  };
  if (node.op == "ConvGradWeight") {
    const bool sum = node.inputs.size() == 2 && node.outputs.size() == 1 && slice(node.inputs, 0) &&
                     slice(node.inputs, 1) && !slice(node.outputs, 0) &&
                     TypeOf(graph, node.outputs[0]).dtype == DType::kFloat32;
    return sum ? std::nullopt : std::optional<std::string>("is no sum over samples");
  }
  const bool of_samples =
      slice(node.inputs, 0) &&
      std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return IsSlice(graph, id); });
  if (node.op == "Reshape") return of_samples ? std::nullopt : std::optional<std::string>("mixes samples");
  if (IsOneOf(node.op, {"Conv", "ConvGradInput"})) {
    const bool weights = node.inputs.size() >= 2 && node.inputs[1] != kNoValue && !slice(node.inputs, 1);
    return of_samples && weights ? std::nullopt : std::optional<std::string>("is no convolution of samples");
  }
  if (IsOneOf(node.op, {"MaxPool", "AveragePool", "AveragePoolGrad", "MaxPoolGrad"}))
    return of_samples ? std::nullopt : std::optional<std::string>("mixes samples");
  // Along another axis than that of samples.
  if (node.op == "Transpose") {
    const std::vector<int64_t> perm = node.attrs.Ints("perm");
    return of_samples && !perm.empty() && perm[0] == 0 ? std::nullopt
                                                       : std::optional<std::string>("moves samples");
  }
  if (node.op == "Slice") {
    const std::vector<int64_t> starts = node.attrs.Ints("starts"), steps = node.attrs.Ints("steps");
    const bool whole = of_samples && !starts.empty() && starts[0] == 0 && !steps.empty() && steps[0] == 1 &&
                       TypeOf(graph, node.inputs[0]).dims[0] == TypeOf(graph, node.outputs[0]).dims[0];
    return whole ? std::nullopt : std::optional<std::string>("takes some of the samples");
  }
  if (node.op == "Concat") {
    const bool all = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId id) { return id != kNoValue && IsSlice(graph, id); });
    return of_samples && all && node.attrs.Int("axis") > 0 ? std::nullopt
                                                           : std::optional<std::string>("mixes samples");
  }
  return "an operator that does not run in tiles";
}

std::vector<int32_t> LoopOfNodes(const Graph& graph) {
  std::vector<int32_t> loop_of(graph.nodes.size(), -1);
  for (size_t l = 0; l < graph.loops.size(); ++l)
    for (int64_t i = graph.loops[l].first; i < graph.loops[l].last; ++i)
      loop_of[static_cast<size_t>(i)] = static_cast<int32_t>(l);
  return loop_of;
}

std::vector<int32_t> LoopOfValues(const Graph& graph) {
  constexpr int32_t kUnseen = -2;
  const std::vector<int32_t> loop_of = LoopOfNodes(graph);
  const std::vector<ValueId> root = AliasRoots(graph);
  std::vector<int32_t> of_root(graph.values.size(), kUnseen);
  const auto see = [&](ValueId id, int32_t loop) {
    if (id == kNoValue) return;
    int32_t& of = of_root[static_cast<size_t>(root[static_cast<size_t>(id)])];
    of = of == kUnseen || of == loop ? loop : -1;
  };
  for (size_t v = 0; v < root.size(); ++v)
    if (graph.values[v].kind != ValueKind::kActivation) of_root[v] = -1;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const ValueId id : node.inputs) see(id, loop_of[i]);
    for (const ValueId id : node.outputs)
      see(id, TileRoleOf(graph.value(id).type) == TileRole::kSlice ? loop_of[i] : -1);
  }
  for (const ValueId id : graph.outputs) see(id, -1);
  std::vector<int32_t> result(graph.values.size());
  for (size_t v = 0; v < result.size(); ++v) result[v] = std::max(-1, of_root[static_cast<size_t>(root[v])]);
  return result;
}

std::vector<int32_t> LoopOfStorages(const StepGraph& step) {
  const std::vector<int32_t> of_values = LoopOfValues(step.graph);
  std::vector<int32_t> result(static_cast<size_t>(step.storages), -1);
  for (size_t v = 0; v < of_values.size(); ++v)
    if (step.storage_of[v] >= 0) result[static_cast<size_t>(step.storage_of[v])] = of_values[v];
  return result;
}

std::optional<std::string> CheckLoops(const StepGraph& step) {
  const Graph& graph = step.graph;
  int64_t behind = 0;
  for (const SampleLoop& loop : graph.loops) {
    if (loop.first < behind || loop.last <= loop.first ||
        loop.last > static_cast<int64_t>(graph.nodes.size()))
      return "a loop over samples at impossible nodes";
    if (loop.tiles < 1 || loop.tiles > kMostTiles || loop.least_samples < 1 ||
        loop.least_samples > kMostTiles)
      return "a loop over samples of an impossible number of tiles";
    behind = loop.last;
    for (int64_t i = loop.first; i < loop.last; ++i) {
      const Node& node = graph.nodes[static_cast<size_t>(i)];
      if (const auto why = WhyNotTileable(graph, node))
        return "node '" + node.name + "' (" + node.op + ") is in a loop over samples, but " + *why;
    }
  }
  if (graph.loops.empty()) return std::nullopt;
  const std::vector<int32_t> of_node = LoopOfNodes(graph), of_value = LoopOfValues(graph);
  std::vector<ValueId> first(static_cast<size_t>(step.storages), kNoValue);
  std::vector<int32_t> made_in(graph.values.size(), -1);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (step.storage_of[v] < 0) continue;
    ValueId& other = first[static_cast<size_t>(step.storage_of[v])];
    if (other == kNoValue) other = static_cast<ValueId>(v);
    const auto o = static_cast<size_t>(other);
    // Tiles of two sizes of sample would overlap one another's neighbours.
    const bool alike =
        of_value[o] == of_value[v] && graph.values[o].type.Bytes() == graph.values[v].type.Bytes();
    if (!alike && o != v)
      return "values '" + graph.values[o].name + "' and '" + graph.values[v].name +
             "' share a storage, but not their tiles";
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].inputs)
      if (of_node[i] >= 0 && id != kNoValue && made_in[static_cast<size_t>(id)] == of_node[i])
        return "node '" + graph.nodes[i].name +
               "' reads a sum over samples before all tiles have added to it";
    for (const ValueId id : graph.nodes[i].outputs)
      if (TileRoleOf(graph.value(id).type) == TileRole::kSame) made_in[static_cast<size_t>(id)] = of_node[i];
  }
  return std::nullopt;
}

}  // namespace act
