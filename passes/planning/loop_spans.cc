#include "passes/planning/loop_spans.h"

#include <algorithm>
#include <utility>

#include "runtime/plan/sample_loops.h"

namespace act {

LoopSpans::LoopSpans(const MovingStep& step, const LoopParts& parts, std::vector<int64_t> bytes)
    : step_(step), bytes_(std::move(bytes)) {
  for (const Family& family : step.families()) {
    fits_.push_back(Fits(family, parts));
    if (fits_.back() && !family.without_root) by_bytes_.push_back(static_cast<FamilyId>(fits_.size()) - 1);
  }
  const auto key = [&](FamilyId f) {
    const ValueId root = step.families()[static_cast<size_t>(f)].root;
    return std::pair(-bytes_[static_cast<size_t>(root)], root);
  };
  std::sort(by_bytes_.begin(), by_bytes_.end(), [&](FamilyId a, FamilyId b) { return key(a) < key(b); });
}

bool LoopSpans::Fits(const Family& family, const LoopParts& parts) const {
  const bool made = family.without_root || step_.graph().value(family.root).kind == ValueKind::kActivation;
  return made && !family.is_output &&
         std::all_of(family.values.begin(), family.values.end(),
                     [&](ValueId v) { return parts.RoleOf(v) == TileRole::kSlice; }) &&
         std::all_of(family.nodes.begin(), family.nodes.end(),
                     [&](NodeNumber node) { return parts.IsTileable(node); });
}

// A result in its operand's memory takes no less in tiles if its operand does not. So values are tried by themselves,
// then all of a storage together.
bool LoopSpans::Visit(size_t first, size_t last, llvm::function_ref<bool(const LoopSpan&)> visit) const {
  const std::vector<int32_t> loop_of_node = LoopOfNodes(step_.graph());
  for (const FamilyId f : by_bytes_) {
    const Family& family = step_.families()[static_cast<size_t>(f)];
    if (family.first <= last && first <= family.last && LoopOf(family, loop_of_node) < 0 &&
        visit({family.root, family.first, family.last, {f}}))
      return true;
  }
  const std::vector<LoopSpan> of_storages = OfStorages(first, last, loop_of_node);
  return std::any_of(of_storages.begin(), of_storages.end(), visit);
}

// For each family the one that had its storage first, by the rules of AssignStorages.
std::vector<FamilyId> LoopSpans::StorageHeads(const std::vector<int32_t>& loop_of_node) const {
  const std::vector<Family>& families = step_.families();
  std::vector<FamilyId> head(families.size());
  for (size_t f = 0; f < head.size(); ++f) head[f] = static_cast<FamilyId>(f);
  for (size_t i = 0; i < loop_of_node.size(); ++i) {
    std::vector<FamilyId> taken;
    for (const FamilyOverwrite& overwrite : step_.OverwritesOf(step_.At(i))) {
      FamilyId& made = head[static_cast<size_t>(overwrite.made)];
      const Family &result = families[static_cast<size_t>(overwrite.made)],
                   &operand = families[static_cast<size_t>(overwrite.read)];
      if (made != overwrite.made || operand.last != i ||
          LoopOf(result, loop_of_node) != LoopOf(operand, loop_of_node) ||
          std::find(taken.begin(), taken.end(), overwrite.read) != taken.end())
        continue;
      made = head[static_cast<size_t>(overwrite.read)];
      taken.push_back(overwrite.read);
    }
  }
  return head;
}

std::vector<LoopSpan> LoopSpans::OfStorages(size_t first, size_t last,
                                            const std::vector<int32_t>& loop_of_node) const {
  const std::vector<Family>& families = step_.families();
  const std::vector<FamilyId> head = StorageHeads(loop_of_node);
  std::vector<LoopSpan> all(families.size());
  std::vector<bool> fit = fits_;
  for (size_t f = 0; f < families.size(); ++f) {
    const auto h = static_cast<size_t>(head[f]);
    LoopSpan& span = all[h];
    span.last_read = std::max(span.last_read, families[f].last);
    fit[h] = fit[h] && fits_[f];
    span.families.insert(f == h ? span.families.begin() : span.families.end(), static_cast<FamilyId>(f));
  }
  std::vector<LoopSpan> spans;
  for (size_t f = 0; f < families.size(); ++f) {
    const Family& family = families[f];
    LoopSpan& span = all[f];
    if (!fit[f] || static_cast<size_t>(head[f]) != f || family.first > last || first > span.last_read ||
        LoopOf(family, loop_of_node) >= 0)
      continue;
    span.made = family.first;
    // An input's reshapes may change places.
    span.value = family.without_root ? step_.NodeOf(step_.At(span.made)).outputs[0] : family.root;
    spans.push_back(std::move(span));
  }
  const auto key = [&](const LoopSpan& span) {
    return std::pair(-bytes_[static_cast<size_t>(span.value)], span.value);
  };
  std::sort(spans.begin(), spans.end(),
            [&](const LoopSpan& a, const LoopSpan& b) { return key(a) < key(b); });
  return spans;
}

}  // namespace act
