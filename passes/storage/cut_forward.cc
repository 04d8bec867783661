#include "passes/storage/cut_forward.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"

namespace act {
namespace {

constexpr int64_t kBlockProducts = 3;

class Cutter {
 public:
  Cutter(const Graph& graph, const SavedValues& saved, int64_t spacing)
      : graph_(graph), saved_(saved), spacing_(spacing) {}

  std::vector<Segment> Run() {
    while (forward_ < graph_.nodes.size() && saved_.InForward(forward_)) ++forward_;
    segments_.emplace_back();
    for (size_t i = 0; i < forward_; ++i) {
      if (IsHeavy(graph_.nodes[i]) && ++heavy_ > spacing_) Cut(i);
      Pass(i);
      Consider(i);
    }
    Close(forward_);
    return std::move(segments_);
  }

  std::vector<int64_t> Blocks() {
    while (forward_ < graph_.nodes.size() && saved_.InForward(forward_)) ++forward_;
    std::vector<int64_t> blocks;
    int64_t block = 1;
    size_t end = 0;  // of the block; 0: it goes on
    for (size_t i = 0; i < forward_; ++i) {
      blocks.push_back(block);
      if (IsHeavy(graph_.nodes[i]) && end > 0) {
        std::fill(blocks.begin() + static_cast<std::ptrdiff_t>(end), blocks.end(), ++block);
        end = 0;
        heavy_ = 0;
      }
      heavy_ += IsHeavy(graph_.nodes[i]);
      Pass(i);
      if (heavy_ >= kBlockProducts && alive_.size() == 1) end = i + 1;
    }
    return blocks;
  }

 private:
  // The last forward node that reads v. -1: no node does.
  int64_t LastForwardRead(ValueId v) const {
    const std::span<const size_t> readers = saved_.Readers(v);
    const auto end = std::lower_bound(readers.begin(), readers.end(), forward_);
    return end == readers.begin() ? -1 : static_cast<int64_t>(*std::prev(end));
  }

  // Updates alive_ to the values that are alive after node i.
  void Pass(size_t i) {
    const Node& node = graph_.nodes[i];
    const auto at = static_cast<int64_t>(i);
    for (ValueId v : node.outputs)
      if (LastForwardRead(v) > at && saved_.CodesLossily(v) && alive_.insert(v).second) {
        begun_.push_back(v);
        new_bytes_ += NewBytesOf(v);
      }
    for (ValueId v : node.inputs)
      if (v != kNoValue && LastForwardRead(v) == at && alive_.erase(v) > 0) {
        ended_.push_back(v);
        new_bytes_ -= NewBytesOf(v);
      }
  }

  // 0 of an anchor, which is stored anyway. Sums of these are integers, and so exact.
  double NewBytesOf(ValueId v) const {
    return anchors_.count(v) ? 0 : static_cast<double>(graph_.value(v).type.Bytes().At(kComparedBatch));
  }

  // What was alive after best_. A copy at each node that is the best so far would be quadratic where much is alive.
  std::set<ValueId> BestAlive() const {
    std::set<ValueId> alive = alive_;
    alive.insert(ended_.begin(), ended_.end());
    for (ValueId v : begun_) alive.erase(v);
    return alive;
  }

  void Consider(size_t i) {
    if (heavy_ == 0) return;
    const double price = new_bytes_ / static_cast<double>(heavy_);
    if (price > least_) return;  // of equal prices the last wins: after the ReLU
    least_ = price;
    best_ = i;
    begun_.clear();
    ended_.clear();
  }

  void Cut(size_t i) {
    Close(best_ + 1);
    std::set<ValueId> anchors = BestAlive();
    anchors_.insert(anchors.begin(), anchors.end());
    segments_.push_back({best_ + 1, 0, std::move(anchors), 0});
    new_bytes_ = 0;
    for (ValueId v : alive_) new_bytes_ += NewBytesOf(v);
    heavy_ = 0;
    for (size_t k = best_ + 1; k <= i; ++k) heavy_ += IsHeavy(graph_.nodes[k]);
    least_ = std::numeric_limits<double>::infinity();
  }

  void Close(size_t end) {
    Segment& segment = segments_.back();
    segment.end = end;
    for (size_t i = segment.begin; i < end; ++i) {
      if (!IsHeavy(graph_.nodes[i])) continue;
      const Dim elements = graph_.value(graph_.nodes[i].outputs[0]).type.Elements();
      segment.largest = std::max(segment.largest, elements.At(1));
    }
  }

  const Graph& graph_;
  const SavedValues& saved_;
  const int64_t spacing_;
  size_t forward_ = 0;  // nodes of the forward pass, which come first
  std::vector<Segment> segments_;
  std::set<ValueId> anchors_, alive_;
  std::vector<ValueId> begun_, ended_;  // values whose life began or ended after best_
  double new_bytes_ = 0;                // of what is alive and no anchor
  int64_t heavy_ = 0;                   // heavy nodes after the last cut
  double least_ = std::numeric_limits<double>::infinity();
  size_t best_ = 0;
};

}  // namespace

bool IsHeavy(const Node& node) { return IsLinearProduct(OpOf(node)); }

bool IsNormalize(const Node& node) { return OpOf(node).norm.role == Normalization::Role::kNormalize; }
bool NormalizesRows(const Node& node) { return IsNormalize(node) && OpOf(node).norm.by_rows; }

std::vector<Segment> CutForward(const Graph& graph, const SavedValues& saved, int64_t spacing) {
  return Cutter(graph, saved, spacing).Run();
}

std::vector<Segment> RerunSegments(const Graph& graph, const SavedValues& saved, int64_t spacing,
                                   int64_t elements) {
  std::vector<Segment> segments = CutForward(graph, saved, spacing);
  std::erase_if(segments, [&](const Segment& segment) {
    const auto at = [&](size_t i) { return graph.nodes.begin() + static_cast<std::ptrdiff_t>(i); };
    return segment.largest > elements || std::any_of(at(segment.begin), at(segment.end), NormalizesRows);
  });
  return segments;
}

std::vector<int64_t> BlocksOfForward(const Graph& graph, const SavedValues& saved) {
  return Cutter(graph, saved, kBlockProducts).Blocks();
}

}  // namespace act
