// Runs parts of a step for a tile of samples at a time, if that lowers the peak. It puts loops over
// samples (runtime/plan/sample_loops.h) around nodes at the peak, from the maker of a large tensor
// to its last reader. The largest of the tensors that live at the peak is tried first. A loop stays
// if it lowers the largest number of bytes that live at its nodes and hardly raises the peak of a
// small batch. The pass ends when no loop does.
// Nodes in between that cannot run in tiles (updates) move before the loop or after it. Storages
// are then assigned anew. Where a sample alone is a large tile, the loop is over its tokens if it can be.
//
// Of scores, probabilities and their gradient, none takes less in tiles while another is whole and lies in the same
// memory. So attempts see them as if they lay apart. They end up in one loop, and share its tile's memory.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/policy/compared_batches.h"
#include "passes/pass.h"
#include "passes/planning/assign_storage.h"
#include "passes/planning/live_window.h"
#include "passes/planning/loop_parts.h"
#include "passes/planning/loop_spans.h"
#include "passes/planning/moving_step.h"
#include "runtime/codec/code_samples.h"
#include "runtime/memory/layout.h"
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
// On a CPU that is little beside the product of a tile of 32 MiB (docs/measurements/memory.md). By the rates of a card,
// of which none was measured, adding could take longer than the product, so its tiles are larger.
constexpr int64_t LargeTileBytes(TargetKind target) {
  return int64_t{1} << (target == TargetKind::kCpu ? 25 : 28);
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
// When no such loop is left, further ones may together raise the peak at the small batch size to this many times what
// it is then.
constexpr double kSmallPeakRise = 1.01;

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
        moving_(step),
        parts_(moving_),
        bytes_(BytesOfValues(kTiledPeakBatch)),
        spans_(moving_, parts_, bytes_),
        at_peak_(moving_, peak_batch_, target_),
        at_small_(moving_, kSmallPeakBatch, target_) {}

  void Run() {
    AssignStorages(step_, /*over_scores=*/false);
    live_ = LiveBytes(step_, peak_batch_, target_);
    small_live_ = LiveBytes(step_, kSmallPeakBatch, target_);
    small_peak_without_ = Most(small_live_);
    LowerPeak();
    small_bound_ = static_cast<int64_t>(kSmallPeakRise * static_cast<double>(Most(small_live_)));
    LowerPeak();
    if (least_peak_) {
      LowerHighNodes();
      LowerPeak();
    }
    AssignStorages(step_);
  }

 private:
  void LowerPeak() {
    while (loops_made_ < kMostLoops && LowerAt(Highest())) ++loops_made_;
  }
  size_t Highest() const {
    return static_cast<size_t>(std::max_element(live_.begin(), live_.end()) - live_.begin());
  }

  // Where no loop lowers the peak, loops at nodes that are nearly as high still make room for packing the step, and may
  // meet the peak's own. Each large value is tried once.
  void LowerHighNodes() {
    const std::vector<int64_t> bytes = BytesOfValues(peak_batch_);
    std::set<ValueId> tried;
    const auto lower_one = [&] {
      const int64_t high = PartOfPeak(kHigh), large = PartOfPeak(kLarge);
      const auto lower = [&](const LoopSpan& span) {
        if (bytes[static_cast<size_t>(span.value)] < large || tried.count(span.value) ||
            Most(live_, span.made, span.last_read) < high)
          return false;
        tried.insert(span.value);
        return TryLoop(span);
      };
      return spans_.Visit(0, graph_.nodes.size() - 1, lower);
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
    return spans_.Visit(first, last, [&](const LoopSpan& span) { return TryLoop(span); });
  }

  std::vector<int64_t> BytesOfValues(int64_t batch) const {
    std::vector<int64_t> bytes;
    for (const Value& value : graph_.values) bytes.push_back(value.type.Bytes().At(batch));
    return bytes;
  }

  // Of a sample that is cut into tokens. 1 if it is not, or a loop cannot go over so many.
  int64_t TokensOf(ValueId value) const {
    const Dims& dims = graph_.value(value).type.dims;
    const int64_t tokens = dims[0] != Dim::Batch() ? dims[0].per_batch : dims.size() > 1 ? dims[1].fixed : 1;
    // As float32, because scores in float32 and their gradient in bfloat16 have to be in one loop.
    const bool large =
        graph_.value(value).type.Elements().At(1) > large_tile_bytes_ / ByteSize(DType::kFloat32);
    const bool cut = large || IsLong(value, tokens);
    return cut && tokens <= kMostTiles ? tokens : 1;
  }

  // Whether its samples are long (runtime/codec/code_samples.h).
  bool IsLong(ValueId value, int64_t tokens) const {
    return tokens > 1 && AreLong(tokens, graph_.value(value).type.Elements().At(1) / tokens);
  }

  // The tiles of a loop for the tensor.
  SampleLoop LoopFor(ValueId value, int64_t tokens) const {
    const int64_t bytes = bytes_[static_cast<size_t>(value)];
    const int64_t all = kTiledPeakBatch * tokens;
    const int64_t large = std::max<int64_t>(large_tile_bytes_ / std::max<int64_t>(bytes / all, 1), 1);
    const int64_t samples = IsLong(value, tokens) ? std::min(large, tile_tokens_) : large;
    const int64_t tiles = samples < large ? all / samples : bytes / large_tile_bytes_;
    return {.first = 0,
            .last = 0,
            .tiles = std::clamp(tiles, tiles_, std::min(all, kMostTiles)),
            .least_samples = tokens > 1 ? samples : std::min(samples, least_samples_),
            .tokens = tokens};
  }

  // Tries a loop over the tokens of long samples, or else over samples.
  bool TryLoop(const LoopSpan& span) {
    const int64_t tokens = TokensOf(span.value);
    return (tokens > 1 && TryLoop(span, tokens)) || TryLoop(span, 1);
  }

  // Tries a loop around the span and around the loops that it meets. Undoes it if it does not pay.
  bool TryLoop(const LoopSpan& span, int64_t tokens) {
    if (FailsAgain(span, tokens)) return false;
    size_t lo = span.made, hi = span.last_read;
    std::vector<SampleLoop> others;
    SampleLoop made = LoopFor(span.value, tokens);
    std::vector<const SampleLoop*> met;
    bool alike = true;
    // In order, because taking in one loop may make it meet the next.
    for (const SampleLoop& loop : graph_.loops) {
      const auto first = static_cast<size_t>(loop.first), last = static_cast<size_t>(loop.last);
      if (last <= lo || first > hi) {
        others.push_back(loop);
        continue;
      }
      lo = std::min(lo, first);
      hi = std::max(hi, last - 1);
      met.push_back(&loop);
      alike = alike && loop.tokens == tokens;
      made.tiles = std::max(made.tiles, loop.tiles);
      made.least_samples = std::min(made.least_samples, loop.least_samples);
    }
    const auto fails = [&] {
      failed_[KeyOf(span, tokens)] = {span.made, span.last_read, lo, hi, changed_.size()};
      return false;
    };
    if (!alike) return fails();
    std::vector<bool> in_core = CoreOf(span, lo, hi);
    for (const SampleLoop* loop : met)
      std::fill(in_core.begin() + (loop->first - static_cast<int64_t>(lo)),
                in_core.begin() + (loop->last - static_cast<int64_t>(lo)), true);
    std::optional<Parting> parting = parts_.Part(lo, in_core, tokens);
    if (!parting && !met.empty()) parting = parts_.Part(lo, Bound(span, lo, in_core), tokens);
    if (!parting) return fails();

    const std::vector<size_t> order = parting->Order();
    std::vector<NodeNumber> nodes;
    nodes.reserve(order.size());
    for (const size_t i : order) nodes.push_back(moving_.At(i));
    made.first = static_cast<int64_t>(lo + parting->before.size());
    made.last = made.first + static_cast<int64_t>(parting->loop.size());
    others.push_back(made);
    std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const std::vector<int32_t> loop_of = LoopOfNodes(graph_);
    graph_.loops.swap(others);
    // Of a node that comes into a loop over tokens, or leaves one.
    const auto assign_workspaces = [&](int64_t of_coming, int64_t of_leaving) {
      if (tokens == 1) return;
      for (size_t k = 0; k < order.size(); ++k) {
        const auto at = static_cast<int64_t>(lo + k);
        const bool in_loop = made.first <= at && at < made.last, was_in_loop = loop_of[order[k]] >= 0;
        if (in_loop != was_in_loop)
          AssignWorkspace(graph_, graph_.nodes[order[k]], in_loop ? of_coming : of_leaving, workspace_limit_);
      }
    };
    assign_workspaces(tokens, 1);
    const std::vector<int64_t> live = at_peak_.BytesAt(lo, nodes);
    const double part = static_cast<double>(Most(live)) / static_cast<double>(Most(live_, lo, hi));
    const bool pays = part <= kGain;
    if (pays) {
      std::vector<int64_t> small_live = small_live_;
      std::ranges::copy(at_small_.BytesAt(lo, nodes), small_live.begin() + static_cast<std::ptrdiff_t>(lo));
      const int64_t bound =
          std::max(small_bound_, part <= kLargeGain ? small_peak_without_ : Most(small_live_));
      if (least_peak_ || Most(small_live) <= bound) {
        std::ranges::copy(live, live_.begin() + static_cast<std::ptrdiff_t>(lo));
        small_live_ = std::move(small_live);
        moving_.Move(lo, order);
        changed_.emplace_back(lo, hi);
        return true;
      }
    }
    graph_.loops.swap(others);
    assign_workspaces(1, tokens);
    return pays ? false : fails();  // whether the small peak allows it depends on other loops
  }

  // Of the nodes of the loops that an attempt takes in, those that share a tensor which exists in tiles alone, and those of
  // the span. Others (a sum of labels that a later gradient divides by) may leave the loop.
  std::vector<bool> Bound(const LoopSpan& span, size_t lo, const std::vector<bool>& in_core) {
    const std::vector<int32_t> loop_of_node = LoopOfNodes(graph_);
    const auto in_tiles = [&](ValueId id) {
      return id != kNoValue &&
             LoopOf(moving_.families()[static_cast<size_t>(moving_.FamilyOf(id))], loop_of_node) >= 0;
    };
    std::vector<bool> bound = CoreOf(span, lo, lo + in_core.size() - 1);
    for (size_t i = 0; i < in_core.size(); ++i) {
      const Node& node = graph_.nodes[lo + i];
      if (in_core[i] && (std::any_of(node.inputs.begin(), node.inputs.end(), in_tiles) ||
                         std::any_of(node.outputs.begin(), node.outputs.end(), in_tiles)))
        bound[i] = true;
    }
    return bound;
  }

  // Of the nodes lo .. hi: those that make or read what the span is about.
  std::vector<bool> CoreOf(const LoopSpan& span, size_t lo, size_t hi) const {
    std::vector<bool> in_core(hi - lo + 1);
    for (const FamilyId f : span.families)
      for (const NodeNumber node : moving_.families()[static_cast<size_t>(f)].nodes)
        in_core[moving_.PositionOf(node) - lo] = true;
    return in_core;
  }

  // An attempt that failed for what is at certain nodes.
  struct Failure {
    size_t made = 0, last_read = 0;  // of the span
    size_t lo = 0, hi = 0;           // of the nodes
    size_t changes = 0;              // changed_.size() then
  };
  using Key = std::tuple<FamilyId, bool, bool>;
  static Key KeyOf(const LoopSpan& span, int64_t tokens) {
    return {span.families[0], span.families.size() > 1, tokens > 1};
  }

  // Whether a loop can hold the nodes of the family. Of 64 families, one walk over the nodes tells.
  bool MayBeInLoop(FamilyId f) {
    const size_t block = static_cast<size_t>(f) / 64;
    const auto [known, fresh] = may_be_in_loop_.try_emplace(block);
    if (fresh) {
      std::vector<std::pair<size_t, size_t>> cores;  // nodes, each with the bit of a family that it touches
      const std::vector<Family>& families = moving_.families();
      for (size_t bit = 0; bit < 64 && 64 * block + bit < families.size(); ++bit)
        for (const NodeNumber node : families[64 * block + bit].nodes)
          cores.emplace_back(moving_.PositionOf(node), bit);
      const auto [first, last] = std::minmax_element(cores.begin(), cores.end());
      std::vector<uint64_t> cores_of(last->first - first->first + 1);
      for (const auto& [node, bit] : cores) cores_of[node - first->first] |= uint64_t{1} << bit;
      known->second = parts_.MayHold(first->first, cores_of);
    }
    return known->second >> (f % 64) & 1;
  }

  // Whether an attempt is known to fail: no loop can hold its nodes, or it failed and nothing has changed there since.
  bool FailsAgain(const LoopSpan& span, int64_t tokens) {
    for (const FamilyId f : span.families)
      if (!MayBeInLoop(f)) return true;
    const auto known = failed_.find(KeyOf(span, tokens));
    if (known == failed_.end()) return false;
    const Failure& failure = known->second;
    return failure.made == span.made && failure.last_read == span.last_read &&
           std::none_of(
               changed_.begin() + static_cast<std::ptrdiff_t>(failure.changes), changed_.end(),
               [&](const auto& window) { return window.first <= failure.hi && failure.lo <= window.second; });
  }

  static int64_t Most(const std::vector<int64_t>& live) { return Most(live, 0, live.size() - 1); }
  static int64_t Most(const std::vector<int64_t>& live, size_t lo, size_t hi) {
    return *std::max_element(live.begin() + static_cast<std::ptrdiff_t>(lo),
                             live.begin() + static_cast<std::ptrdiff_t>(hi) + 1);
  }

  StepGraph& step_;
  Graph& graph_;
  const TargetKind target_;
  const int64_t workspace_limit_;
  const int64_t large_tile_bytes_, tile_tokens_;
  const bool least_peak_;                // Policy::least_peak
  const int64_t peak_batch_;             // whose peak is to be lowered
  const int64_t tiles_, least_samples_;  // of a loop over samples
  MovingStep moving_;
  const LoopParts parts_;
  const std::vector<int64_t> bytes_;  // of values at kTiledPeakBatch
  const LoopSpans spans_;
  const LiveWindow at_peak_, at_small_;
  int loops_made_ = 0;
  std::vector<int64_t> live_, small_live_;     // at peak_batch_, at kSmallPeakBatch
  int64_t small_peak_without_ = 0;             // the largest of small_live_ without loops
  int64_t small_bound_ = 0;                    // that further loops may bring it to; 0 before there are any
  std::map<size_t, uint64_t> may_be_in_loop_;  // of 64 families, by a 64th of the first one's number
  std::map<Key, Failure> failed_;
  std::vector<std::pair<size_t, size_t>>
      changed_;  // the first and last of the nodes that each loop made has changed
};

}  // namespace

llvm::Error TileSamples(StepGraph& step, PassContext& context) {
  if (!step.graph.nodes.empty()) Tiler(step, context).Run();
  return llvm::Error::success();
}

}  // namespace act
