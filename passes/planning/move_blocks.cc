#include "passes/planning/move_blocks.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <span>
#include <utility>

namespace act {
namespace {

constexpr int32_t kMostNodes = 6;  // of a block
constexpr int32_t kReach = 64;     // a block passes that many nodes at most
constexpr int kRounds = 3;
// Tensors of less than this part of the step's peak do not count. They are many, and some have many readers.
constexpr double kLeastBytes = 1e-4;
// A block is tried if the bytes that wait after it and before it differ by this part of the peak.
constexpr double kLeastChange = 1e-3;

class BlockMover {
 public:
  BlockMover(const ScheduleProblem& problem, Schedule schedule)
      : problem_(problem),
        peak_(static_cast<double>(PeakBytes(problem, schedule))),
        order_(std::move(schedule)),
        position_(size()),
        needs_(size()),
        needed_by_(size()),
        tensors_of_(size()),
        overwrites_of_(size()),
        waiting_(size() + 1),
        live_(size()),
        moved_(size()),
        life_(problem.tensors.size()),
        seen_(problem.tensors.size()) {
    for (size_t t = 0; t < problem_.tensors.size(); ++t) AddTensor(t);
    for (const auto& [a, b] : problem_.before) AddEdge(a, b);
    const auto end = problem_.overwrites.end();
    for (auto of = problem_.overwrites.begin(); of != end;) {
      const auto next = std::find_if(of, end, [&](const auto& other) { return other.node != of->node; });
      overwrites_of_[At(of->node)] = {of, next};
      of = next;
    }
    for (size_t i = 0; i < order_.size(); ++i) position_[At(order_[i])] = static_cast<int32_t>(i);
  }

  Schedule Run() {
    if (order_.empty()) return {};
    for (const auto& tensor : problem_.tensors)
      if (tensor.maker < 0) waiting_[0] += tensor.bytes;
    Walk(0, order_, live_, waiting_);
    for (int round = 0; round < kRounds; ++round) {
      bool any = false;
      for (int32_t begin = 0; begin < problem_.nodes; ++begin)
        for (int32_t end = begin + 1; end <= std::min(begin + kMostNodes, problem_.nodes); ++end)
          any |= MoveBlock(begin, end);
      if (!any) break;
    }
    return std::move(order_);
  }

 private:
  static size_t At(int32_t i) { return static_cast<size_t>(i); }
  size_t size() const { return At(problem_.nodes); }

  void AddEdge(int32_t a, int32_t b) {
    needs_[At(b)].push_back(a);
    needed_by_[At(a)].push_back(b);
  }
  void AddTensor(size_t t) {
    const auto& tensor = problem_.tensors[t];
    const bool counts = static_cast<double>(tensor.bytes) >= kLeastBytes * peak_;
    if (counts && tensor.maker >= 0) tensors_of_[At(tensor.maker)].push_back(t);
    for (const int32_t r : tensor.readers) {
      if (tensor.maker >= 0) AddEdge(tensor.maker, r);
      std::vector<size_t>& of = tensors_of_[At(r)];
      if (counts && (of.empty() || of.back() != t)) of.push_back(t);
    }
  }

  // The bytes that live at the nodes of `window`, which stand at lo, lo + 1, .. Those that wait after each of them go
  // to waiting[1], waiting[2], .., if those before the first are waiting[0].
  void Walk(int32_t lo, std::span<const int32_t> window, std::span<int64_t> live,
            std::span<int64_t> waiting) {
    for (size_t i = 0; i < window.size(); ++i) position_[At(window[i])] = lo + static_cast<int32_t>(i);
    ++mark_;
    for (size_t i = 0; i < window.size(); ++i) {
      const int32_t node = window[i], at = lo + static_cast<int32_t>(i);
      int64_t made = 0, ended = 0;
      for (const size_t t : tensors_of_[At(node)]) {
        const auto& tensor = problem_.tensors[t];
        if (std::exchange(seen_[t], mark_) != mark_) {
          life_[t] = tensor.maker < 0 ? -1 : position_[At(tensor.maker)];
          for (const int32_t r : tensor.readers) life_[t] = std::max(life_[t], position_[At(r)]);
          if (tensor.to_end) life_[t] = problem_.nodes;
        }
        if (tensor.maker == node) made += tensor.bytes;
        if (life_[t] == at) ended += tensor.bytes;
      }
      const int64_t in_place = BytesInPlace(problem_, overwrites_of_[At(node)], [&](int32_t t) {
        return seen_[At(t)] == mark_ && life_[At(t)] == at;
      });
      live[i] = waiting[i] + made - in_place;
      waiting[i + 1] = waiting[i] + made - ended;
    }
  }

  // Moves the nodes at begin .. end - 1 to where the fewest bytes wait, if there is a better place.
  bool MoveBlock(int32_t begin, int32_t end) {
    const auto counts = [this](int32_t i) { return !tensors_of_[At(order_[At(i)])].empty(); };
    if (!counts(begin) || !counts(end - 1)) return false;  // a shorter block is the same
    const int64_t change = waiting_[At(end)] - waiting_[At(begin)];
    if (static_cast<double>(std::abs(change)) < kLeastChange * peak_) return false;
    int32_t least = std::max(0, begin - kReach), most = std::min(problem_.nodes, end + kReach);
    for (int32_t i = begin; i < end; ++i) {
      const size_t n = At(order_[At(i)]);
      for (const int32_t m : needs_[n])
        if (position_[At(m)] < begin) least = std::max(least, position_[At(m)] + 1);
      for (const int32_t m : needed_by_[n])
        if (position_[At(m)] >= end) most = std::min(most, position_[At(m)]);
    }
    int64_t best_gain = 0;
    int32_t best = -1;
    const auto consider = [&](int32_t to) {
      const int64_t gain = GainOf(begin, end, to);
      if (gain > best_gain) best_gain = gain, best = to;
    };
    // Past a node that does not count, nothing changes.
    if (change > 0) {
      for (int32_t to = end + 1; to <= most; ++to)
        if (to == most || counts(to - 1)) consider(to);
    } else {
      for (int32_t to = begin - 1; to >= least; --to)
        if (to == least || counts(to)) consider(to);
    }
    if (best < 0) return false;
    const int32_t lo = std::min(begin, best);
    Rotate(begin, end, best);
    std::copy(moved_.begin(), moved_.end(), order_.begin() + lo);
    Walk(lo, moved_, std::span(live_).subspan(At(lo)), std::span(waiting_).subspan(At(lo)));
    return true;
  }

  // Sets moved_ to the nodes that change places if the block moves before position `to`.
  void Rotate(int32_t begin, int32_t end, int32_t to) {
    const auto at = [this](int32_t i) { return order_.begin() + i; };
    moved_.clear();
    if (to > end)
      std::rotate_copy(at(begin), at(end), at(to), std::back_inserter(moved_));
    else
      std::rotate_copy(at(to), at(begin), at(end), std::back_inserter(moved_));
  }

  // By how much the bytes at the nodes that the block passes fall, over all of them, if it moves before position `to`.
  // Its own nodes do not count: where few bytes live they would lower the mean by their place alone. 0: the most at one
  // of all these nodes would rise, or their sum would not fall.
  int64_t GainOf(int32_t begin, int32_t end, int32_t to) {
    const int32_t lo = std::min(begin, to), hi = std::max(end, to), block = end - begin;
    Rotate(begin, end, to);
    moved_live_.resize(moved_.size());
    moved_waiting_.resize(moved_.size() + 1);
    moved_waiting_[0] = waiting_[At(lo)];
    Walk(lo, moved_, moved_live_, moved_waiting_);
    for (int32_t i = lo; i < hi; ++i) position_[At(order_[At(i)])] = i;
    const std::span<const int64_t> now = moved_live_, before = std::span(live_).subspan(At(lo), now.size());
    if (*std::max_element(now.begin(), now.end()) > *std::max_element(before.begin(), before.end())) return 0;
    const int32_t now_at = to > end ? hi - lo - block : 0, before_at = begin - lo;  // of the block
    int64_t gain = 0, of_block = 0;
    for (int32_t i = 0; i < hi - lo; ++i) {
      (i >= before_at && i < before_at + block ? of_block : gain) += before[At(i)];
      (i >= now_at && i < now_at + block ? of_block : gain) -= now[At(i)];
    }
    return gain + of_block > 0 ? gain : 0;
  }

  const ScheduleProblem& problem_;
  const double peak_;
  Schedule order_;
  std::vector<int32_t> position_;  // of nodes
  std::vector<std::vector<int32_t>> needs_, needed_by_;
  std::vector<std::vector<size_t>> tensors_of_;  // those that count, of the node that makes or reads them
  std::vector<std::span<const ScheduleProblem::Overwrite>> overwrites_of_;
  std::vector<int64_t> waiting_;  // bytes between each node and the one before it
  std::vector<int64_t> live_;     // bytes at each node
  Schedule moved_;                // of a move that is tried
  std::vector<int64_t> moved_live_, moved_waiting_;
  std::vector<int32_t> life_;  // the last node of each tensor, where seen_ says so
  std::vector<int64_t> seen_;
  int64_t mark_ = 0;
};

}  // namespace

Schedule MoveBlocks(const ScheduleProblem& problem, Schedule schedule) {
  return BlockMover(problem, std::move(schedule)).Run();
}

}  // namespace act
