#include "passes/planning/loop_parts.h"

#include <algorithm>
#include <iterator>

#include "runtime/plan/alias.h"
#include "runtime/plan/runtime_op.h"

namespace act {

std::vector<size_t> Parting::Order() const {
  std::vector<size_t> order = before;
  order.insert(order.end(), loop.begin(), loop.end());
  order.insert(order.end(), after.begin(), after.end());
  return order;
}

LoopParts::LoopParts(const MovingStep& step) : step_(step) {
  const Graph& graph = step.graph();
  for (const Value& value : graph.values) roles_.push_back(TileRoleOf(value.type));
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = step.NodeOf(static_cast<NodeNumber>(n));
    NodeFacts facts{.first_input = operands_.size()};
    std::copy_if(node.inputs.begin(), node.inputs.end(), std::back_inserter(operands_),
                 [](ValueId id) { return id != kNoValue; });
    facts.first_output = operands_.size();
    operands_.insert(operands_.end(), node.outputs.begin(), node.outputs.end());
    facts.end = operands_.size();
    facts.tileable = !WhyNotTileable(graph, node);
    facts.reshapes = IsAlias(node);
    facts.writes = !node.mutates.empty();
    nodes_.push_back(facts);
  }
}

bool LoopParts::IsTileable(NodeNumber node, int64_t tokens) const {
  return FactsOf(node).tileable &&
         (tokens == 1 || !WhyNotTileable(step_.graph(), step_.NodeOf(node), tokens));
}

// Which of the nodes make something whole that the core needs, for itself or by others. A node that cannot run in tiles
// (LossDenominator) is one, and so is every node that it reads from, even if that one could run in tiles (a Slice of
// the labels).
std::vector<bool> LoopParts::NeededWhole(size_t lo, const std::vector<bool>& in_core, int64_t tokens) const {
  enum Need : uint8_t { kNot = 0, kInTiles = 1, kWhole = 2 };
  std::vector<uint8_t> needs(roles_.size());
  std::vector<bool> result(in_core.size());
  for (size_t i = in_core.size(); i-- > 0;) {
    const NodeNumber node = step_.At(lo + i);
    uint8_t need = in_core[i] ? kInTiles : kNot;
    for (const ValueId id : OutputsOf(node)) need |= needs[static_cast<size_t>(id)];
    if (need == kNot) continue;
    result[i] = (need & kWhole) != 0 || !IsTileable(node, tokens);
    for (const ValueId id : InputsOf(node)) needs[static_cast<size_t>(id)] |= result[i] ? kWhole : kInTiles;
  }
  return result;
}

std::optional<Parting> LoopParts::Part(size_t lo, const std::vector<bool>& in_core, int64_t tokens) const {
  const std::vector<bool> needed_whole = NeededWhole(lo, in_core, tokens);
  enum Made : uint8_t { kElsewhere = 0, kInLoop = 1, kSumInLoop = 2, kAfter = 4 };
  std::vector<uint8_t> made(roles_.size());
  Parting parting;
  for (size_t i = 0; i < in_core.size(); ++i) {
    const NodeNumber node = step_.At(lo + i);
    const NodeFacts& facts = FactsOf(node);
    uint8_t reads = kElsewhere;
    for (const ValueId id : InputsOf(node)) reads |= made[static_cast<size_t>(id)];
    // A sum is complete only after the loop. What an update after the loop writes must not be
    // read before it.
    const bool after = (reads & (kAfter | kSumInLoop)) != 0;
    // Another shape of what is whole is whole: a node that cannot be in the loop may read it.
    const bool stays_whole = !in_core[i] && (reads & kInLoop) == 0 && (needed_whole[i] || facts.reshapes);
    const bool in_loop = !after && !stays_whole && IsTileable(node, tokens);
    const bool before = !after && !in_loop && (reads & kInLoop) == 0 && !facts.writes;
    if (in_core[i] && !in_loop) return std::nullopt;
    (in_loop ? parting.loop : before ? parting.before : parting.after).push_back(lo + i);
    for (const ValueId id : OutputsOf(node)) {
      const bool sum = RoleOf(id) == TileRole::kSame;
      made[static_cast<size_t>(id)] = in_loop ? (sum ? kSumInLoop : kInLoop) : before ? kElsewhere : kAfter;
    }
    if (!facts.writes) continue;
    const Node& writer = step_.NodeOf(node);
    for (const int32_t m : writer.mutates)
      made[static_cast<size_t>(writer.inputs[static_cast<size_t>(m)])] = kAfter;
  }
  return parting;
}

// Follows only what the cores make. Who reads of it must be in the loop or after it; Part may put more nodes there.
uint64_t LoopParts::MayHold(size_t lo, const std::vector<uint64_t>& cores) const {
  std::vector<uint64_t> in_loop(roles_.size()), later(roles_.size());
  uint64_t held = ~uint64_t{0};
  for (size_t i = 0; i < cores.size(); ++i) {
    const NodeNumber node = step_.At(lo + i);
    uint64_t inside = cores[i], after = 0;
    for (const ValueId id : InputsOf(node)) {
      inside |= in_loop[static_cast<size_t>(id)];
      after |= later[static_cast<size_t>(id)];
    }
    if ((inside | after) == 0) continue;
    const bool tileable = IsTileable(node);
    held &= ~(cores[i] & (tileable ? after : ~uint64_t{0}));
    for (const ValueId id : OutputsOf(node)) {
      const bool waits = !tileable || RoleOf(id) == TileRole::kSame;
      later[static_cast<size_t>(id)] = after | (waits ? inside : 0);
      in_loop[static_cast<size_t>(id)] = waits ? 0 : inside & ~after;
    }
  }
  return held;
}

}  // namespace act
