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

// Which of the nodes lo .. hi make something whole that the core needs, for itself or by others. A node that cannot
// run in tiles (LossDenominator) is one, and so is every node that it reads from, even if that one could run in
// tiles (a Slice of the labels).
std::vector<bool> LoopParts::NeededWhole(size_t lo, size_t hi, const std::vector<bool>& in_core,
                                         int64_t tokens) const {
  std::vector<bool> in_tiles(graph_.values.size()), whole(graph_.values.size()), result(hi - lo + 1);
  const auto any = [](const std::vector<bool>& set, const std::vector<ValueId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return set[static_cast<size_t>(id)]; });
  };
  for (size_t i = hi + 1; i-- > lo;) {
    const Node& node = graph_.nodes[i];
    const bool needed = in_core[i - lo] || any(in_tiles, node.outputs);
    result[i - lo] = any(whole, node.outputs) || (needed && !IsTileable(node, tokens));
    if (!needed && !result[i - lo]) continue;
    for (const ValueId id : node.inputs)
      if (id != kNoValue) (result[i - lo] ? whole : in_tiles)[static_cast<size_t>(id)] = true;
  }
  return result;
}

std::optional<Parting> LoopParts::Part(size_t lo, size_t hi, const std::set<size_t>& core,
                                       int64_t tokens) const {
  std::vector<bool> in_core(hi - lo + 1);
  for (const size_t i : core) in_core[i - lo] = true;
  const std::vector<bool> needed_whole = NeededWhole(lo, hi, in_core, tokens);
  enum class Made : uint8_t { kElsewhere, kInLoop, kSumInLoop, kAfter };
  std::vector<Made> made(graph_.values.size(), Made::kElsewhere);
  Parting parting;
  for (size_t i = lo; i <= hi; ++i) {
    const Node& node = graph_.nodes[i];
    const auto reads = [&](Made what) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](ValueId id) { return id != kNoValue && made[static_cast<size_t>(id)] == what; });
    };
    // A sum is complete only after the loop. What an update after the loop writes must not be
    // read before it.
    const bool after = reads(Made::kAfter) || reads(Made::kSumInLoop);
    // Another shape of what is whole is whole: a node that cannot be in the loop may read it.
    const bool stays_whole =
        (IsAlias(node) || needed_whole[i - lo]) && !in_core[i - lo] && !reads(Made::kInLoop);
    const bool in_loop = !after && !stays_whole && IsTileable(node, tokens);
    const bool before = !after && !in_loop && !reads(Made::kInLoop) && node.mutates.empty();
    if (in_core[i - lo] && !in_loop) return std::nullopt;
    (in_loop ? parting.loop : before ? parting.before : parting.after).push_back(i);
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

}  // namespace act
