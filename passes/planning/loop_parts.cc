#include "passes/planning/loop_parts.h"

#include <algorithm>

#include "runtime/plan/alias.h"
#include "runtime/plan/runtime_op.h"

namespace act {

std::vector<size_t> Parting::Order() const {
  std::vector<size_t> order = before;
  order.insert(order.end(), loop.begin(), loop.end());
  order.insert(order.end(), after.begin(), after.end());
  return order;
}

LoopParts::LoopParts(const Graph& graph) : graph_(graph), tileable_(graph.values.size()) {
  for (const Value& value : graph_.values) roles_.push_back(TileRoleOf(value.type));
  for (const Node& node : graph_.nodes)
    if (!node.outputs.empty())
      tileable_[static_cast<size_t>(node.outputs[0])] = !WhyNotTileable(graph_, node);
}

bool LoopParts::IsTileable(const Node& node, int64_t tokens) const {
  if (node.outputs.empty()) return !WhyNotTileable(graph_, node, tokens);
  if (!tileable_[static_cast<size_t>(node.outputs[0])]) return false;
  return tokens == 1 || !WhyNotTileable(graph_, node, tokens);
}

// Which of the nodes make something whole that the core needs, for itself or by others. A node that cannot run in tiles
// (LossDenominator) is one, and so is every node that it reads from, even if that one could run in tiles (a Slice of
// the labels).
std::vector<bool> LoopParts::NeededWhole(size_t lo, const std::vector<bool>& in_core, int64_t tokens) const {
  std::vector<bool> in_tiles(graph_.values.size()), whole(graph_.values.size()), result(in_core.size());
  const auto any = [](const std::vector<bool>& set, const std::vector<ValueId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return set[static_cast<size_t>(id)]; });
  };
  for (size_t i = in_core.size(); i-- > 0;) {
    const Node& node = graph_.nodes[lo + i];
    const bool needed = in_core[i] || any(in_tiles, node.outputs);
    result[i] = any(whole, node.outputs) || (needed && !IsTileable(node, tokens));
    if (!needed && !result[i]) continue;
    for (const ValueId id : node.inputs)
      if (id != kNoValue) (result[i] ? whole : in_tiles)[static_cast<size_t>(id)] = true;
  }
  return result;
}

std::optional<Parting> LoopParts::Part(size_t lo, const std::vector<bool>& in_core, int64_t tokens) const {
  const std::vector<bool> needed_whole = NeededWhole(lo, in_core, tokens);
  enum class Made : uint8_t { kElsewhere, kInLoop, kSumInLoop, kAfter };
  std::vector<Made> made(graph_.values.size(), Made::kElsewhere);
  Parting parting;
  for (size_t i = 0; i < in_core.size(); ++i) {
    const Node& node = graph_.nodes[lo + i];
    const auto reads = [&](Made what) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](ValueId id) { return id != kNoValue && made[static_cast<size_t>(id)] == what; });
    };
    // A sum is complete only after the loop. What an update after the loop writes must not be
    // read before it.
    const bool after = reads(Made::kAfter) || reads(Made::kSumInLoop);
    // Another shape of what is whole is whole: a node that cannot be in the loop may read it.
    const bool stays_whole = (IsAlias(node) || needed_whole[i]) && !in_core[i] && !reads(Made::kInLoop);
    const bool in_loop = !after && !stays_whole && IsTileable(node, tokens);
    const bool before = !after && !in_loop && !reads(Made::kInLoop) && node.mutates.empty();
    if (in_core[i] && !in_loop) return std::nullopt;
    (in_loop ? parting.loop : before ? parting.before : parting.after).push_back(lo + i);
    for (const ValueId id : node.outputs) {
      const bool sum = RoleOf(id) == TileRole::kSame;
      made[static_cast<size_t>(id)] = in_loop  ? (sum ? Made::kSumInLoop : Made::kInLoop)
                                      : before ? Made::kElsewhere
                                               : Made::kAfter;
    }
    for (const int32_t m : node.mutates)
      made[static_cast<size_t>(node.inputs[static_cast<size_t>(m)])] = Made::kAfter;
  }
  return parting;
}

// Follows only what the cores make. Who reads of it must be in the loop or after it; Part may put more nodes there.
uint64_t LoopParts::MayHold(size_t lo, const std::vector<uint64_t>& cores) const {
  std::vector<uint64_t> in_loop(graph_.values.size()), later(graph_.values.size());
  uint64_t held = ~uint64_t{0};
  for (size_t i = 0; i < cores.size(); ++i) {
    const Node& node = graph_.nodes[lo + i];
    uint64_t inside = cores[i], after = 0;
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      inside |= in_loop[static_cast<size_t>(id)];
      after |= later[static_cast<size_t>(id)];
    }
    if ((inside | after) == 0) continue;
    const bool tileable = IsTileable(node);
    held &= ~(cores[i] & (tileable ? after : ~uint64_t{0}));
    for (const ValueId id : node.outputs) {
      const bool waits = !tileable || RoleOf(id) == TileRole::kSame;
      later[static_cast<size_t>(id)] = after | (waits ? inside : 0);
      in_loop[static_cast<size_t>(id)] = waits ? 0 : inside & ~after;
    }
  }
  return held;
}

}  // namespace act
