#include "passes/planning/moving_step.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "passes/planning/assign_storage.h"
#include "runtime/plan/alias.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/tile_rules.h"

namespace act {

MovingStep::MovingStep(StepGraph& step)
    : graph_(step.graph),
      family_of_(graph_.values.size(), -1),
      families_of_(graph_.nodes.size()),
      overwrites_of_(graph_.nodes.size()),
      number_at_(graph_.nodes.size()),
      position_of_(graph_.nodes.size()) {
  std::iota(number_at_.begin(), number_at_.end(), 0);
  std::iota(position_of_.begin(), position_of_.end(), size_t{0});
  FindFamilies(step);
  FindNodes();
  FindOverwrites();
  FindEnds();
}

void MovingStep::FindFamilies(const StepGraph& step) {
  const std::vector<ValueId> root = AliasRoots(graph_);
  std::vector<FamilyId> of_root(root.size(), -1), reshapes_of(root.size(), -1);
  const auto add = [&](FamilyId& id, size_t v) {
    if (id < 0) {
      id = static_cast<FamilyId>(families_.size());
      families_.emplace_back().root = static_cast<ValueId>(v);
    }
    families_[static_cast<size_t>(id)].values.push_back(static_cast<ValueId>(v));
    return id;
  };
  for (size_t v = 0; v < root.size(); ++v)
    if (step.storage_of[v] >= 0) family_of_[v] = add(of_root[static_cast<size_t>(root[v])], v);
  for (size_t v = 0; v < root.size(); ++v) {
    const auto r = static_cast<size_t>(root[v]);
    if (family_of_[v] < 0) continue;
    Family& family = families_[static_cast<size_t>(family_of_[v])];
    family.root = root[v];
    family.persistent = IsPersistent(graph_.values[r].kind);
    family.slices = graph_.values[r].kind == ValueKind::kActivation;
    if (graph_.values[r].kind == ValueKind::kInput && r != v) add(reshapes_of[r], v);
  }
  for (const FamilyId id : reshapes_of)
    if (id >= 0) families_[static_cast<size_t>(id)].without_root = true;
  for (const ValueId id : graph_.outputs)
    for (const FamilyId f : {family_of_[static_cast<size_t>(id)],
                             reshapes_of[static_cast<size_t>(root[static_cast<size_t>(id)])]})
      if (f >= 0) {
        families_[static_cast<size_t>(f)].is_output = true;
        families_[static_cast<size_t>(f)].slices = false;
      }
}

void MovingStep::FindNodes() {
  std::vector<std::vector<FamilyId>> of_value(graph_.values.size());
  for (size_t f = 0; f < families_.size(); ++f)
    if (!families_[f].persistent)
      for (const ValueId v : families_[f].values)
        of_value[static_cast<size_t>(v)].push_back(static_cast<FamilyId>(f));
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    std::set<FamilyId> touched;
    const auto touch = [&](ValueId id) {
      if (id == kNoValue) return;
      const std::vector<FamilyId>& of = of_value[static_cast<size_t>(id)];
      touched.insert(of.begin(), of.end());
    };
    std::for_each(node.inputs.begin(), node.inputs.end(), touch);
    std::for_each(node.outputs.begin(), node.outputs.end(), touch);
    families_of_[i].assign(touched.begin(), touched.end());
    for (const FamilyId f : touched)
      families_[static_cast<size_t>(f)].nodes.push_back(static_cast<NodeNumber>(i));
    for (const ValueId id : node.outputs)
      if (TileRoleOf(graph_.value(id).type) != TileRole::kSlice)
        families_[static_cast<size_t>(family_of_[static_cast<size_t>(id)])].slices = false;
    if (RunsOf(node) == Runs::kSwapOut)
      for (const ValueId id : node.outputs)
        families_[static_cast<size_t>(family_of_[static_cast<size_t>(id)])].on_host = true;
  }
}

// Not those of losses (tile_samples.cc).
void MovingStep::FindOverwrites() {
  const auto of = [&](ValueId id) { return family_of_[static_cast<size_t>(id)]; };
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (IsOfLoss(node)) continue;
    for (const Overwrite& overwrite : act::OverwritesOf(graph_, node)) {
      const FamilyId made = of(node.outputs[overwrite.result]), read = of(node.inputs[overwrite.operand]);
      const Family& family = families_[static_cast<size_t>(read)];
      const bool may = MayOverwriteAll(graph_, node, overwrite.result,
                                       [&](ValueId id) { return id != kNoValue && of(id) == read; });
      if (may && !family.is_output && graph_.value(family.root).kind == ValueKind::kActivation)
        overwrites_of_[i].push_back({made, read});
    }
  }
}

// Without its nodes: an input lives at the first node, an output at the last, and others nowhere.
size_t MovingStep::FirstWithoutNodes(const Family& family) const {
  const bool is_input = graph_.value(family.root).kind == ValueKind::kInput && !family.without_root;
  return is_input ? 0 : graph_.nodes.size();
}
size_t MovingStep::LastWithoutNodes(const Family& family) const {
  return family.is_output && !family.without_root ? graph_.nodes.size() - 1 : 0;
}

void MovingStep::FindEnds() {
  for (Family& family : families_) {
    family.first = FirstWithoutNodes(family);
    family.last = LastWithoutNodes(family);
    for (const NodeNumber node : family.nodes) family.Touch(PositionOf(node));
  }
}

void MovingStep::Move(size_t lo, const std::vector<size_t>& order) {
  std::vector<Node> nodes;
  std::vector<NodeNumber> numbers;
  for (const size_t position : order) {
    nodes.push_back(std::move(graph_.nodes[position]));
    numbers.push_back(number_at_[position]);
  }
  for (size_t k = 0; k < order.size(); ++k) {
    graph_.nodes[lo + k] = std::move(nodes[k]);
    number_at_[lo + k] = numbers[k];
    position_of_[static_cast<size_t>(numbers[k])] = lo + k;
  }
  // A family may have nodes all over the step, so only ends that lie among the moved nodes are found again.
  const auto for_each = [&](const auto& f) {
    for (const NodeNumber node : numbers)
      for (const FamilyId id : FamiliesOf(node)) f(families_[static_cast<size_t>(id)], PositionOf(node));
  };
  for_each([&](Family& family, size_t) {
    if (family.first >= lo) family.first = FirstWithoutNodes(family);
    if (family.last < lo + order.size()) family.last = LastWithoutNodes(family);
  });
  for_each([](Family& family, size_t position) { family.Touch(position); });
}

}  // namespace act
