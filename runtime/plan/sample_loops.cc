#include "runtime/plan/sample_loops.h"

#include <algorithm>

#include "runtime/plan/alias.h"
#include "runtime/plan/runtime_op.h"

namespace act {

int64_t LoopSamples(const SampleLoop& loop, int64_t batch) { return SaturatingMul(batch, loop.tokens); }

int64_t TileSamples(const SampleLoop& loop, int64_t batch) {
  const int64_t all = LoopSamples(loop, batch), samples = (all + loop.tiles - 1) / loop.tiles;
  return std::max<int64_t>(1, std::min(all, std::max(samples, loop.least_samples)));
}

bool HasTiles(const SampleLoop& loop, int64_t batch) {
  return TileSamples(loop, batch) < LoopSamples(loop, batch);
}

int64_t SamplesAtATime(const Graph& graph, int32_t loop, int64_t batch) {
  return loop < 0 ? batch : TileSamples(graph.loops[static_cast<size_t>(loop)], batch);
}

TensorType TypeIn(const Graph& graph, int32_t loop, const TensorType& type) {
  // CheckLoops has seen that there is one.
  return loop < 0 ? type : TokenType(type, graph.loops[static_cast<size_t>(loop)].tokens).value_or(type);
}

std::optional<std::string> WhyNotTileable(const Graph& graph, const Node& node) {
  if (!node.mutates.empty()) return "writes in place";
  if (node.phase == Phase::kUpdate) return "is part of the update";
  if (auto wrong = WrongCounts(node)) return wrong;
  bool slices = false;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const TileRole role = TileRoleOf(graph.value(id).type);
    if (role == TileRole::kNone) return "an operand's samples do not follow one another";
    slices |= role == TileRole::kSlice;
  }
  if (!slices) return "reads no samples";
  for (const ValueId id : node.outputs)
    if (TileRoleOf(graph.value(id).type) == TileRole::kNone)
      return "a result's samples do not follow one another";
  const RuntimeOp* op = FindRuntimeOp(node.op);
  if (!op || !op->why_not_tileable) return "an operator that does not run in tiles";
  return op->why_not_tileable(graph, node);
}

std::optional<std::string> WhyNotTileable(const Graph& graph, const Node& node, int64_t tokens) {
  if (auto why = WhyNotTileable(graph, node)) return why;
  if (tokens == 1) return std::nullopt;
  const RuntimeOp* const op = FindRuntimeOp(node.op);
  if (!op->why_not_of_tokens) return "an operator that does not run for some tokens of a sample";
  if (auto why = op->why_not_of_tokens(graph, node)) return why;
  const std::optional<Graph> alone = TokenGraph(graph, node, tokens);
  if (!alone) return "an operand, result, code or mask without " + std::to_string(tokens) + " tokens";
  return WhyNotTileable(*alone, alone->nodes[0]);
}

static bool HoldsNoSamples(const Graph& graph, ValueId result) {
  return TileRoleOf(graph.value(result).type) == TileRole::kSame;
}

bool IsSumOfTiles(const Graph& graph, const Node& node, ValueId result) {
  const RuntimeOp* const op = FindRuntimeOp(node.op);
  return HoldsNoSamples(graph, result) && !(op && op->goes_on != GoesOnFrom::kNothing);
}

bool GoesOn(const Graph& graph, const Node& node) {
  const RuntimeOp* const op = FindRuntimeOp(node.op);
  return op && op->goes_on != GoesOnFrom::kNothing && HoldsNoSamples(graph, node.outputs[0]);
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
        loop.least_samples > kMostTiles || loop.tokens < 1 || loop.tokens > kMostTiles)
      return "a loop over samples of an impossible number of tiles";
    behind = loop.last;
    for (int64_t i = loop.first; i < loop.last; ++i) {
      const Node& node = graph.nodes[static_cast<size_t>(i)];
      if (const auto why = WhyNotTileable(graph, node, loop.tokens))
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
    // If two values had samples of different sizes, a tile of one would overlap other tiles of
    // the other.
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
