// Runs parts of a step for a tile of samples at a time, if that lowers the peak. It puts loops over
// samples (runtime/plan/sample_loops.h) around nodes at the peak, from the maker of a large tensor
// to its last reader. The largest of the tensors that live at the peak is tried first. A loop stays
// if it lowers the largest number of bytes that live at its nodes. The pass ends when no loop does.
// Nodes in between that cannot run in tiles (updates) move before the loop or after it. Storages
// are then assigned anew. Where a sample alone is a large tile, the loop is over its tokens if it can be.
#include <algorithm>
#include <optional>
#include <set>

#include "compiler/policy/compared_batches.h"
#include "passes/pass.h"
#include "passes/planning/assign_storage.h"
#include "passes/planning/loop_parts.h"
#include "runtime/codec/code_samples.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/alias.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/sample_loops.h"

namespace act {
namespace {

// Tiles cost no time while each of them keeps all cores busy, except that each adds its part to the
// gradient of every weight. So there are few tiles, and none is small, in samples or in bytes. Where
// a sample takes many bytes (a language model's scores), there are as many tiles as keep each small.
constexpr int64_t kTiles = 16;
constexpr int64_t kLeastSamples = 8;
constexpr int64_t kMostSmallTiles = 64;  // in place of kTiles at L5, where a tile may be a sample
// Of one tensor in a tile, at kTiledPeakBatch. Each tile adds its part to the gradient of the weight that makes scores.
// On a CPU that is little beside the product of a tile of 64 MiB (docs/measurements/memory.md). By the rates of a card,
// of which none was measured, adding could take longer than the product, so its tiles are larger.
constexpr int64_t LargeTileBytes(TargetKind target) {
  return int64_t{1} << (target == TargetKind::kCpu ? 26 : 28);
}
// Of a long sample (runtime/codec/code_samples.h), unless they take more bytes than that. Each tile adds its part to the
// gradient of every weight, beside products whose time grows with the tokens. So a card has more tokens, too.
constexpr int64_t TileTokens(TargetKind target) { return target == TargetKind::kCpu ? 1024 : 4096; }
constexpr int kMostLoops = 400;  // bounds the time of the search; known networks stay far below
// L5: nodes at which at least this part of the peak lives are high, and values of this part of it are large.
constexpr double kHigh = .8, kLarge = .02;
constexpr double kGain = .999;  // a loop must lower the bytes at its nodes to at most this part
// A loop that lowers them this far may take back what earlier loops saved at the small batch size.
constexpr double kLargeGain = .75;

class Tiler {
 public:
  Tiler(StepGraph& step, const PassContext& context)
      : step_(step),
        graph_(step.graph),
        target_(context.target),
        workspace_limit_(context.workspace_limit),
        large_tile_bytes_(LargeTileBytes(context.target)),
        tile_tokens_(TileTokens(context.target)),
        least_peak_(context.policy.least_peak),
        peak_batch_(least_peak_ ? std::max(context.policy.batch, kSmallPeakBatch) : kTiledPeakBatch),
        tiles_(least_peak_ ? kMostSmallTiles : kTiles),
        least_samples_(least_peak_ ? 1 : kLeastSamples),
        parts_(step.graph) {}

  void Run() {
    if (graph_.nodes.empty()) return;
    live_ = LiveBytes(step_, peak_batch_, target_);
    small_peak_ = small_peak_without_ = Most(LiveBytes(step_, kSmallPeakBatch, target_));
    LowerPeak();
    if (!least_peak_) return;
    LowerHighNodes();
    LowerPeak();
  }

 private:
  // The nodes between which a value, or a Reshape of it, is made and last read.
  struct Span {
    size_t made = 0, last_read = 0;
    ValueId value = kNoValue;
    int64_t bytes = 0;
    int64_t tokens = 1;         // of a sample that is larger than a tile may be
    std::vector<size_t> nodes;  // makers and readers; some more than once
  };

  void LowerPeak() {
    while (loops_made_ < kMostLoops && LowerAt(Highest())) ++loops_made_;
  }
  size_t Highest() const {
    return static_cast<size_t>(std::max_element(live_.begin(), live_.end()) - live_.begin());
  }

  // Where no loop lowers the peak, loops at nodes that are nearly as high still make room for packing the step, and may
  // meet the peak's own. Each large value is tried once.
  void LowerHighNodes() {
    std::set<ValueId> tried;
    const auto lower_one = [&] {
      const int64_t high = PartOfPeak(kHigh), large = PartOfPeak(kLarge);
      for (const std::vector<ValueId>& root : {AliasRoots(graph_), StorageRoots()})
        for (const Span& span : SpansIn(0, graph_.nodes.size() - 1, root)) {
          const bool at_high = graph_.value(span.value).type.Bytes().At(peak_batch_) >= large &&
                               Most(live_, span.made, span.last_read) >= high;
          if (at_high && tried.insert(span.value).second && TryLoop(span, 1)) return true;
        }
      return false;
    };
    while (loops_made_ < kMostLoops && lower_one()) ++loops_made_;
  }
  int64_t PartOfPeak(double part) const {
    return static_cast<int64_t>(part * static_cast<double>(Most(live_)));
  }

  bool LowerAt(size_t node) {
    // What a loop shares with the rest of the step lives while any of its tiles runs.
    size_t first = node, last = node;
    for (const SampleLoop& loop : graph_.loops)
      if (static_cast<size_t>(loop.first) <= node && node < static_cast<size_t>(loop.last))
        first = static_cast<size_t>(loop.first), last = static_cast<size_t>(loop.last) - 1;
    // A result in its operand's memory takes no less in tiles if its operand does not. So values are tried by
    // themselves, then all of a storage together.
    for (const std::vector<ValueId>& root : {AliasRoots(graph_), StorageRoots()})
      for (const Span& span : SpansIn(first, last, root))
        if ((span.tokens > 1 && TryLoop(span, span.tokens)) || TryLoop(span, 1)) return true;
    return false;
  }

  // For each value the first one of its storage.
  std::vector<ValueId> StorageRoots() const {
    std::vector<ValueId> roots = AliasRoots(graph_);
    std::vector<ValueId> first(static_cast<size_t>(step_.storages), kNoValue);
    for (const Node& node : graph_.nodes)
      for (const ValueId id : node.outputs) {
        if (step_.storage_of[static_cast<size_t>(id)] < 0) continue;
        ValueId& of = first[static_cast<size_t>(step_.storage_of[static_cast<size_t>(id)])];
        if (of == kNoValue) of = id;
        roots[static_cast<size_t>(id)] = of;
      }
    return roots;
  }

  // The spans of values that have a batch axis, live at one of the nodes first .. last, and are made and read only
  // by nodes that may run in tiles. Values with the same root are one. The largest comes first.
  std::vector<Span> SpansIn(size_t first, size_t last, const std::vector<ValueId>& root) const {
    std::vector<std::optional<Span>> spans(graph_.values.size());
    std::vector<bool> fits(graph_.values.size(), true);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const bool tileable = parts_.IsTileable(node);
      const auto see = [&](ValueId id) {
        if (id == kNoValue) return;
        const auto r = static_cast<size_t>(root[static_cast<size_t>(id)]);
        fits[r] = fits[r] && tileable && parts_.RoleOf(id) == TileRole::kSlice;
        if (!spans[r]) return;
        spans[r]->last_read = i;
        spans[r]->nodes.push_back(i);
      };
      for (const ValueId id : node.outputs)
        if (root[static_cast<size_t>(id)] == id) spans[static_cast<size_t>(id)] = SpanOf(id, i);
      for (const ValueId id : node.outputs) see(id);
      for (const ValueId id : node.inputs) see(id);
    }
    for (const ValueId id : graph_.outputs) fits[static_cast<size_t>(root[static_cast<size_t>(id)])] = false;
    const std::vector<int32_t> loop_of = LoopOfValues(graph_);
    std::vector<Span> result;
    for (size_t v = 0; v < spans.size(); ++v)
      if (spans[v] && fits[v] && loop_of[v] < 0 && spans[v]->made <= last && first <= spans[v]->last_read)
        result.push_back(*spans[v]);
    std::stable_sort(result.begin(), result.end(),
                     [](const Span& a, const Span& b) { return a.bytes > b.bytes; });
    return result;
  }

  Span SpanOf(ValueId value, size_t made) const {
    const TensorType& type = graph_.value(value).type;
    const int64_t bytes = type.Bytes().At(kTiledPeakBatch);
    const int64_t tokens = TileRoleOf(type) == TileRole::kSlice ? TokensOf(type.dims) : 1;
    const bool cut = bytes / kTiledPeakBatch > large_tile_bytes_ || IsLong(value, tokens);
    return {made, made, value, bytes, cut ? tokens : 1, {}};
  }
  // 1 if a loop cannot go over so many.
  static int64_t TokensOf(const Dims& dims) {
    const int64_t tokens = dims[0] != Dim::Batch() ? dims[0].per_batch : dims.size() > 1 ? dims[1].fixed : 1;
    return tokens <= kMostTiles ? tokens : 1;
  }

  bool IsLong(ValueId value, int64_t tokens) const {
    return tokens > 1 && AreLong(tokens, graph_.value(value).type.Elements().At(1) / tokens);
  }

  // The tiles of a loop for the span's tensor.
  SampleLoop LoopFor(const Span& span, int64_t tokens) const {
    const int64_t all = kTiledPeakBatch * tokens;
    const int64_t large = std::max<int64_t>(large_tile_bytes_ / std::max<int64_t>(span.bytes / all, 1), 1);
    const int64_t samples = IsLong(span.value, tokens) ? std::min(large, tile_tokens_) : large;
    const int64_t tiles = samples < large ? all / samples : span.bytes / large_tile_bytes_;
    return {.first = 0,
            .last = 0,
            .tiles = std::clamp(tiles, tiles_, std::min(all, kMostTiles)),
            .least_samples = tokens > 1 ? samples : std::min(samples, least_samples_),
            .tokens = tokens};
  }

  // Tries a loop around the span and around the loops that it meets. Undoes it if it does not pay.
  bool TryLoop(const Span& span, int64_t tokens) {
    size_t lo = span.made, hi = span.last_read;
    std::set<size_t> core(span.nodes.begin(), span.nodes.end());
    std::vector<SampleLoop> others;
    SampleLoop made = LoopFor(span, tokens);
    // In order, because taking in one loop may make it meet the next.
    for (const SampleLoop& loop : graph_.loops) {
      const auto first = static_cast<size_t>(loop.first), last = static_cast<size_t>(loop.last);
      if (last <= lo || first > hi) {
        others.push_back(loop);
        continue;
      }
      if (loop.tokens != tokens) return false;
      lo = std::min(lo, first);
      hi = std::max(hi, last - 1);
      for (size_t i = first; i < last; ++i) core.insert(i);
      made.tiles = std::max(made.tiles, loop.tiles);
      made.least_samples = std::min(made.least_samples, loop.least_samples);
    }
    const std::optional<Parting> parting = parts_.Part(lo, hi, core, tokens);
    if (!parting) return false;

    const std::vector<SampleLoop> loops_before = graph_.loops;
    const std::vector<StorageId> storage_before = step_.storage_of;
    const int32_t storages_before = step_.storages;
    const std::vector<size_t> order = parting->Order();
    Permute(lo, order, /*back=*/false);
    made.first = static_cast<int64_t>(lo + parting->before.size());
    made.last = made.first + static_cast<int64_t>(parting->loop.size());
    others.push_back(made);
    std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    graph_.loops = others;
    AssignStorages(step_);
    if (tokens > 1) AssignWorkspaces(lo, hi);
    std::vector<int64_t> live = LiveBytes(step_, peak_batch_, target_);
    const double part = static_cast<double>(Most(live, lo, hi)) / static_cast<double>(Most(live_, lo, hi));
    if (part <= kGain) {
      const int64_t small_peak = Most(LiveBytes(step_, kSmallPeakBatch, target_));
      if (least_peak_ || small_peak <= (part <= kLargeGain ? small_peak_without_ : small_peak_)) {
        live_ = std::move(live);
        small_peak_ = small_peak;
        return true;
      }
    }
    Permute(lo, order, /*back=*/true);
    graph_.loops = loops_before;
    if (tokens > 1) AssignWorkspaces(lo, hi);
    step_.storage_of = storage_before;
    step_.storages = storages_before;
    return false;
  }

  // Of the nodes lo .. hi, some of which have gone into or out of a loop over tokens.
  void AssignWorkspaces(size_t lo, size_t hi) {
    const std::vector<int32_t> loop_of = LoopOfNodes(graph_);
    for (size_t i = lo; i <= hi; ++i) {
      const int64_t tokens = loop_of[i] < 0 ? 1 : graph_.loops[static_cast<size_t>(loop_of[i])].tokens;
      AssignWorkspace(graph_, graph_.nodes[i], tokens, workspace_limit_);
    }
  }

  static int64_t Most(const std::vector<int64_t>& live) { return Most(live, 0, live.size() - 1); }
  static int64_t Most(const std::vector<int64_t>& live, size_t lo, size_t hi) {
    return *std::max_element(live.begin() + static_cast<std::ptrdiff_t>(lo),
                             live.begin() + static_cast<std::ptrdiff_t>(hi) + 1);
  }

  // Moves the node order[k] to lo + k, or with `back` the other way.
  void Permute(size_t lo, const std::vector<size_t>& order, bool back) {
    std::vector<Node> nodes(order.size());
    for (size_t k = 0; k < order.size(); ++k)
      (back ? nodes[order[k] - lo] : nodes[k]) = std::move(graph_.nodes[back ? lo + k : order[k]]);
    std::move(nodes.begin(), nodes.end(), graph_.nodes.begin() + static_cast<std::ptrdiff_t>(lo));
  }

  StepGraph& step_;
  Graph& graph_;
  const TargetKind target_;
  const int64_t workspace_limit_;
  const int64_t large_tile_bytes_, tile_tokens_;
  const bool least_peak_;                // Policy::least_peak
  const int64_t peak_batch_;             // whose peak is to be lowered
  const int64_t tiles_, least_samples_;  // of a loop over samples
  const LoopParts parts_;
  int loops_made_ = 0;
  std::vector<int64_t> live_;                        // at peak_batch_
  int64_t small_peak_ = 0, small_peak_without_ = 0;  // at kSmallPeakBatch: now, and without loops
};

}  // namespace

llvm::Error TileSamples(StepGraph& step, PassContext& context) {
  Tiler(step, context).Run();
  return llvm::Error::success();
}

}  // namespace act
