#include "runtime/levels/allocate_bits.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace act {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Dynamic programming over the edges. A state is an allocation of the first edges. A state is
// dropped if another one has at most its bytes and at most its variance. It is also dropped if a
// Lagrange bound shows that it cannot become better than the best known allocation. The bound: for
// a price `price_` per byte, no allocation of the other edges has less variance than the sum of
// min(variance + price bytes) over these edges, less price times the bytes left.
class Solver {
 public:
  Solver(const BitProblem& problem, size_t most_states) : problem_(problem), most_states_(most_states) {
    for (const auto& options : problem.edges) total_of_cheapest_ += options[Smallest(options)].bytes;
  }

  std::optional<BitAllocation> Solve() {
    if (total_of_cheapest_ > problem_.budget_bytes) return std::nullopt;
    FindPrice();
    best_ = Improved(AtPrice(price_));
    best_variance_ = VarianceOf(problem_, best_);
    BoundRest();
    std::vector<State> states{State{}};
    for (size_t e = 0; e < problem_.edges.size(); ++e) {
      states = Extend(e, states);
      links_.emplace_back();
      for (const State& state : states) links_.back().push_back(state.link);
    }
    const auto less = [](const State& a, const State& b) { return a.variance < b.variance; };
    const auto it = std::min_element(states.begin(), states.end(), less);
    if (it != states.end() && it->variance < best_variance_) Trace(it->link);
    return best_;
  }

 private:
  static constexpr size_t kManyExtensions = 1 << 14;  // of so many, most are left out before they are merged
  static constexpr size_t kFloorOptions = 8, kBlock = 16;

  struct Link {
    uint32_t parent = 0, option = 0;  // the previous edge's state; this edge's option
  };
  struct State {
    int64_t bytes = 0;
    double variance = 0;
    Link link;
  };

  static size_t Smallest(const std::vector<BitOption>& options) {
    const auto less = [](const BitOption& a, const BitOption& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.variance < b.variance;
    };
    return static_cast<size_t>(std::min_element(options.begin(), options.end(), less) - options.begin());
  }

  // Chooses for each edge the option with the least variance + price bytes, and the smaller one of
  // two equal ones.
  BitAllocation AtPrice(double price) const {
    BitAllocation allocation;
    for (const auto& options : problem_.edges) {
      const auto less = [price](const BitOption& a, const BitOption& b) {
        const double cost_a = a.variance + price * static_cast<double>(a.bytes),
                     cost_b = b.variance + price * static_cast<double>(b.bytes);
        return cost_a != cost_b ? cost_a < cost_b : a.bytes < b.bytes;
      };
      allocation.push_back(
          static_cast<size_t>(std::min_element(options.begin(), options.end(), less) - options.begin()));
    }
    return allocation;
  }

  // Finds the least price at which AtPrice keeps the budget: the price of the linear relaxation.
  void FindPrice() {
    const auto fits = [this](double price) {
      return BytesOf(problem_, AtPrice(price)) <= problem_.budget_bytes;
    };
    if (fits(0)) return;
    double low = 0, high = 1e-30;
    while (!fits(high) && high < 1e300) low = high, high *= 16;
    for (int i = 0; i < 200 && low < high; ++i) {
      const double middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
    }
    price_ = high;
  }

  // Spends the bytes that are left. Each time it changes the edge that gains most.
  BitAllocation Improved(BitAllocation allocation) const {
    if (BytesOf(problem_, allocation) > problem_.budget_bytes)
      for (size_t e = 0; e < allocation.size(); ++e) allocation[e] = Smallest(problem_.edges[e]);
    int64_t left = problem_.budget_bytes - BytesOf(problem_, allocation);
    while (true) {
      size_t edge = 0, option = 0;
      double most = 0;
      for (size_t e = 0; e < allocation.size(); ++e) {
        const BitOption& now = problem_.edges[e][allocation[e]];
        for (size_t o = 0; o < problem_.edges[e].size(); ++o) {
          const BitOption& other = problem_.edges[e][o];
          if (other.bytes - now.bytes <= left && now.variance - other.variance > most) {
            most = now.variance - other.variance;
            edge = e;
            option = o;
          }
        }
      }
      if (most <= 0) return allocation;
      left -= problem_.edges[edge][option].bytes - problem_.edges[edge][allocation[edge]].bytes;
      allocation[edge] = option;
    }
  }

  void BoundRest() {
    const size_t n = problem_.edges.size();
    rest_cost_.assign(n + 1, 0);
    rest_bytes_.assign(n + 1, 0);
    const BitAllocation priced = AtPrice(price_);
    for (size_t e = n; e-- > 0;) {
      const BitOption& option = problem_.edges[e][priced[e]];
      rest_cost_[e] = rest_cost_[e + 1] + option.variance + price_ * static_cast<double>(option.bytes);
      rest_bytes_[e] = rest_bytes_[e + 1] + problem_.edges[e][Smallest(problem_.edges[e])].bytes;
    }
  }

  // A lower bound on the variance of all completions of a state whose next edge is `e`.
  double Bound(const State& state, size_t e) const {
    return state.variance + rest_cost_[e] - price_ * static_cast<double>(problem_.budget_bytes - state.bytes);
  }

  // Those of the least variance + price bytes: what they lead to has less variance than most of what others lead to.
  std::vector<BitOption> Cheapest(std::vector<BitOption> options) const {
    const auto cost = [this](const BitOption& o) {
      return o.variance + price_ * static_cast<double>(o.bytes);
    };
    std::stable_sort(options.begin(), options.end(),
                     [&](const BitOption& a, const BitOption& b) { return cost(a) < cost(b); });
    if (options.size() > kFloorOptions) options.resize(kFloorOptions);
    return options;
  }

  // Both by bytes. A state that has no less variance than one of at most its bytes is left out.
  static std::vector<State> Merged(const std::vector<State>& a, const std::vector<State>& b) {
    std::vector<State> states;
    states.reserve(a.size() + b.size());
    double least = kInfinite;
    for (auto i = a.begin(), j = b.begin(); i != a.end() || j != b.end();) {
      const bool first =
          j == b.end() ||
          (i != a.end() && (i->bytes != j->bytes ? i->bytes < j->bytes : i->variance <= j->variance));
      const State& state = first ? *i++ : *j++;
      if (state.variance >= least) continue;
      least = state.variance;
      states.push_back(state);
    }
    return states;
  }

  // For equal parts of the range of bytes: the least variance in the parts below, among the extensions of `before` by some
  // of the options. What has a larger one is left out before it is merged, as nearly all extensions are if a code may have
  // many numbers of levels.
  class Floor {
   public:
    Floor(const std::vector<State>& before, std::span<const BitOption> options, int64_t most_bytes) {
      const auto by_bytes = [](const BitOption& a, const BitOption& b) { return a.bytes < b.bytes; };
      base_ = before.front().bytes + std::min_element(options.begin(), options.end(), by_bytes)->bytes;
      while ((most_bytes - base_) >> shift_ >= kParts) ++shift_;
      least_.assign(kParts + 1, kInfinite);
      for (const BitOption& option : options)
        for (const State& state : before) {
          const int64_t bytes = state.bytes + option.bytes;
          if (bytes > most_bytes) break;
          double& least = least_[static_cast<size_t>(((bytes - base_) >> shift_) + 1)];
          least = std::min(least, state.variance + option.variance);
        }
      for (size_t part = 1; part < least_.size(); ++part)
        least_[part] = std::min(least_[part], least_[part - 1]);
    }
    // For at most `most_bytes`.
    bool LeavesOut(int64_t bytes, double variance) const {
      return bytes >= base_ && least_[static_cast<size_t>((bytes - base_) >> shift_)] < variance;
    }

   private:
    static constexpr int64_t kParts = 1 << 14;
    int64_t base_ = 0;
    int shift_ = 0;
    std::vector<double> least_;
  };

  // The partial allocations up to edge `e`, by bytes. Those before it are in that order, too, and the more bytes, the
  // less variance. So each option has its own in order, and they are merged, which takes less time than to sort them.
  std::vector<State> Extend(size_t e, const std::vector<State>& before) const {
    const std::vector<BitOption>& options = problem_.edges[e];
    const int64_t most_bytes = problem_.budget_bytes - rest_bytes_[e + 1];
    std::optional<Floor> floor;
    if (before.size() * options.size() >= kManyExtensions)
      floor.emplace(before, Cheapest(options), most_bytes);
    std::vector<std::vector<State>> runs(options.size());
    for (size_t o = 0; o < runs.size(); ++o) {
      const BitOption& option = options[o];
      for (size_t first = 0; first < before.size(); first += kBlock) {
        const size_t end = std::min(first + kBlock, before.size());
        if (before[first].bytes + option.bytes > most_bytes) break;
        // No state of the block has fewer bytes than its first, or less variance than its last.
        if (floor &&
            floor->LeavesOut(before[first].bytes + option.bytes, before[end - 1].variance + option.variance))
          continue;
        for (size_t s = first; s < end; ++s) {
          const State state{before[s].bytes + option.bytes,
                            before[s].variance + option.variance,
                            {static_cast<uint32_t>(s), static_cast<uint32_t>(o)}};
          if (state.bytes > most_bytes) break;
          if (Bound(state, e + 1) < best_variance_ &&
              (!floor || !floor->LeavesOut(state.bytes, state.variance)))
            runs[o].push_back(state);
        }
      }
    }
    for (; runs.size() > 1; runs.resize((runs.size() + 1) / 2))
      for (size_t r = 0; r < runs.size(); r += 2)
        runs[r / 2] = r + 1 < runs.size() ? Merged(runs[r], runs[r + 1]) : std::move(runs[r]);
    std::vector<State> states = std::move(runs[0]);
    if (states.size() > most_states_) KeepMostPromising(e + 1, states);
    return states;
  }

  // Keeps as many states as there may be: those of the least bound, in their order.
  void KeepMostPromising(size_t next_edge, std::vector<State>& states) const {
    std::vector<double> bounds;
    bounds.reserve(states.size());
    for (const State& state : states) bounds.push_back(Bound(state, next_edge));
    std::vector<double> sorted = bounds;
    const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(most_states_ - 1);
    std::nth_element(sorted.begin(), last, sorted.end());
    const double most = *last;
    size_t equal = most_states_ - static_cast<size_t>(std::count_if(
                                      sorted.begin(), last, [&](double bound) { return bound < most; }));
    size_t kept = 0;
    for (size_t s = 0; s < states.size(); ++s) {
      if (bounds[s] > most || (bounds[s] == most && equal == 0)) continue;
      if (bounds[s] == most) --equal;
      states[kept++] = states[s];
    }
    states.resize(kept);
  }

  void Trace(Link link) {
    for (size_t e = problem_.edges.size(); e-- > 0;) {
      best_[e] = link.option;
      if (e > 0) link = links_[e - 1][link.parent];
    }
  }

  const BitProblem& problem_;
  const size_t most_states_;
  int64_t total_of_cheapest_ = 0;
  double price_ = 0;  // variance per byte
  BitAllocation best_;
  double best_variance_ = kInfinite;
  std::vector<double> rest_cost_;         // of the edges from e on, at price_
  std::vector<int64_t> rest_bytes_;       // the fewest bytes of the edges from e on
  std::vector<std::vector<Link>> links_;  // of the states after each edge
};

}  // namespace

int64_t BytesOf(const BitProblem& problem, const BitAllocation& allocation) {
  int64_t bytes = 0;
  for (size_t e = 0; e < allocation.size(); ++e) bytes += problem.edges[e][allocation[e]].bytes;
  return bytes;
}

double VarianceOf(const BitProblem& problem, const BitAllocation& allocation) {
  double variance = 0;
  for (size_t e = 0; e < allocation.size(); ++e) variance += problem.edges[e][allocation[e]].variance;
  return variance;
}

int64_t LeastBytes(const BitProblem& problem) {
  int64_t bytes = 0;
  for (const auto& options : problem.edges) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const BitOption& option : options) least = std::min(least, option.bytes);
    bytes += least;
  }
  return bytes;
}

std::optional<BitAllocation> SolveBits(const BitProblem& problem, size_t most_states) {
  return Solver(problem, std::max<size_t>(1, most_states)).Solve();
}

std::optional<std::string> ValidateBits(const BitProblem& problem, const BitAllocation& allocation) {
  if (allocation.size() != problem.edges.size())
    return std::to_string(allocation.size()) + " decisions for " + std::to_string(problem.edges.size()) +
           " edges";
  int64_t bytes = 0;
  for (size_t e = 0; e < allocation.size(); ++e) {
    if (allocation[e] >= problem.edges[e].size()) return "edge " + std::to_string(e) + " has no such option";
    bytes += problem.edges[e][allocation[e]].bytes;
  }
  if (bytes > problem.budget_bytes)
    return std::to_string(bytes) + " bytes exceed the budget of " + std::to_string(problem.budget_bytes);
  return std::nullopt;
}

}  // namespace act
