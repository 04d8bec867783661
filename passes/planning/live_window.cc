#include "passes/planning/live_window.h"

#include <algorithm>

#include "runtime/memory/sizes.h"
#include "runtime/plan/sample_loops.h"

namespace act {

// Of a family that a node of the window touches. Positions are those in the window.
struct LiveWindow::Life {
  FamilyId family = 0;
  size_t first = 0, last = 0;  // of the nodes that touch it
  size_t from = 0, to = 0;     // it lives in [from, to)
  bool read_later = false;     // after the window
  int32_t loop = -1;           // whose nodes alone touch it
  int64_t bytes = 0;
  int32_t storage = 0;  // the life whose storage it shares
};

struct LiveWindow::Lives {
  std::vector<Life> all;
  std::vector<int32_t> of_family;  // a position in `all`; -1: no node of the window touches it

  const Life& Of(FamilyId f) const { return all[static_cast<size_t>(of_family[static_cast<size_t>(f)])]; }
};

struct LiveWindow::Window {
  size_t lo;
  std::span<const NodeNumber> nodes;
  std::vector<int32_t> loop_at;  // the loop of each node; -1: none
};

LiveWindow::LiveWindow(const MovingStep& step, int64_t batch, TargetKind target)
    : step_(step), batch_(batch), target_(target) {
  for (size_t f = 0; f < step.families().size(); ++f) {
    const Family& family = step.families()[f];
    const bool counts = !family.on_host && !family.without_root;
    whole_bytes_.push_back(counts ? FamilyBytes(family, -1) : 0);
    if (family.persistent) persistent_bytes_ += whole_bytes_.back();
    if (family.persistent || family.without_root) continue;
    if (step.graph().value(family.root).kind == ValueKind::kInput)
      inputs_.push_back(static_cast<FamilyId>(f));
    if (family.is_output) outputs_.push_back(static_cast<FamilyId>(f));
  }
  for (size_t i = 0; i < step.graph().nodes.size(); ++i)
    workspace_bytes_.push_back(
        WorkspaceBytes(step.graph(), step.NodeOf(static_cast<NodeNumber>(i)), -1, batch, target));
}

int64_t LiveWindow::FamilyBytes(const Family& family, int32_t loop) const {
  int64_t bytes = 0;
  for (const ValueId v : family.values)
    bytes = std::max(
        bytes, StorageBytes(step_.graph(), loop, step_.graph().value(v).type, batch_, AlignmentOf(target_)));
  return bytes;
}

// The loop of each node of the window.
std::vector<int32_t> LiveWindow::LoopsIn(size_t lo, size_t count) const {
  std::vector<int32_t> loop_at(count, -1);
  const std::vector<SampleLoop>& loops = step_.graph().loops;
  for (size_t l = 0; l < loops.size(); ++l)
    for (auto i = static_cast<size_t>(loops[l].first); i < static_cast<size_t>(loops[l].last); ++i)
      if (lo <= i && i < lo + count) loop_at[i - lo] = static_cast<int32_t>(l);
  return loop_at;
}

LiveWindow::Lives LiveWindow::LivesIn(const Window& window) const {
  const auto [lo, nodes, loop_at] = window;
  const size_t end = lo + nodes.size();
  Lives lives{{}, std::vector<int32_t>(step_.families().size(), -1)};
  const auto touch = [&](FamilyId f, size_t at) {
    int32_t& life = lives.of_family[static_cast<size_t>(f)];
    if (life < 0) {
      life = static_cast<int32_t>(lives.all.size());
      lives.all.push_back({.family = f, .first = at, .storage = life});
    }
    lives.all[static_cast<size_t>(life)].last = at;
  };
  if (lo == 0)
    for (const FamilyId f : inputs_) touch(f, 0);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const FamilyId f : step_.FamiliesOf(nodes[i])) touch(f, i);
  if (end == step_.graph().nodes.size())
    for (const FamilyId f : outputs_) touch(f, nodes.size() - 1);

  for (Life& life : lives.all) {
    const Family& family = step_.families()[static_cast<size_t>(life.family)];
    const bool before = family.first < lo, after = family.last >= end;
    const int32_t first = loop_at[life.first], last = loop_at[life.last];
    const bool alone = family.slices && !before && !after && first == last;
    life.loop = alone ? first : -1;
    life.read_later = after;
    // What a loop shares with the rest of the step lives while any of its tiles runs.
    const auto tiled = [&](int32_t l) -> const SampleLoop* {
      const SampleLoop* const loop = l < 0 ? nullptr : &step_.graph().loops[static_cast<size_t>(l)];
      return loop && !alone && HasTiles(*loop, batch_) ? loop : nullptr;
    };
    life.from = life.first;
    life.to = life.last + 1;
    if (const SampleLoop* const loop = tiled(first)) life.from = static_cast<size_t>(loop->first) - lo;
    if (const SampleLoop* const loop = tiled(last)) life.to = static_cast<size_t>(loop->last) - lo;
    if (before) life.from = 0;
    if (after) life.to = nodes.size();
    life.bytes = whole_bytes_[static_cast<size_t>(life.family)];
    if (life.loop >= 0 && life.bytes > 0) life.bytes = FamilyBytes(family, life.loop);
  }
  return lives;
}

// Gives results the storages of operands, as AssignStorages does.
void LiveWindow::Share(const Window& window, Lives& lives) const {
  for (size_t i = 0; i < window.nodes.size(); ++i) {
    std::vector<FamilyId> taken;
    for (const FamilyOverwrite& overwrite : step_.OverwritesOf(window.nodes[i])) {
      const int32_t made_id = lives.of_family[static_cast<size_t>(overwrite.made)];
      Life& made = lives.all[static_cast<size_t>(made_id)];
      const Life& read = lives.Of(overwrite.read);
      if (made.storage != made_id || made.loop != read.loop || read.last != i || read.read_later ||
          std::find(taken.begin(), taken.end(), overwrite.read) != taken.end())
        continue;
      made.storage = read.storage;
      taken.push_back(overwrite.read);
    }
  }
}

std::vector<int64_t> LiveWindow::BytesAt(size_t lo, std::span<const NodeNumber> nodes) const {
  const Window window{lo, nodes, LoopsIn(lo, nodes.size())};
  Lives lives = LivesIn(window);
  Share(window, lives);
  for (const Life& life : lives.all) {
    Life& storage = lives.all[static_cast<size_t>(life.storage)];
    storage.from = std::min(storage.from, life.from);
    storage.to = std::max(storage.to, life.to);
    storage.bytes = std::max(storage.bytes, life.bytes);
  }
  std::vector<int64_t> change(nodes.size() + 1);
  for (size_t l = 0; l < lives.all.size(); ++l) {
    const Life& life = lives.all[l];
    if (static_cast<size_t>(life.storage) != l) continue;
    change[life.from] += life.bytes;
    change[life.to] -= life.bytes;
  }
  int64_t live = persistent_bytes_;  // and of what nodes before and after the window touch, but none in it
  for (size_t f = 0; f < whole_bytes_.size(); ++f) {
    const Family& family = step_.families()[f];
    if (!family.persistent && lives.of_family[f] < 0 && family.first < lo && family.last >= lo + nodes.size())
      live += whole_bytes_[f];
  }
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    live += change[i];
    const int32_t loop = window.loop_at[i];
    bytes.push_back(
        live + (loop < 0 ? workspace_bytes_[static_cast<size_t>(nodes[i])]
                         : WorkspaceBytes(step_.graph(), step_.NodeOf(nodes[i]), loop, batch_, target_)));
  }
  return bytes;
}

}  // namespace act
