#include "runtime/levels/allocate_bits.h"

#include <algorithm>
#include <limits>

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
    layers_.push_back({State{}});
    for (size_t e = 0; e < problem_.edges.size(); ++e) layers_.push_back(Extend(e));
    const std::vector<State>& last = layers_.back();
    const auto less = [](const State& a, const State& b) { return a.variance < b.variance; };
    const auto it = std::min_element(last.begin(), last.end(), less);
    if (it != last.end() && it->variance < best_variance_) Trace(*it);
    return best_;
  }

 private:
  struct State {
    int64_t bytes = 0;
    double variance = 0;
    size_t parent = 0, option = 0;  // the previous edge's state; this edge's option
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

  // The partial allocations up to edge `e`, by bytes. Those before it are in that order, too. So each option has
  // its own in order, and they are merged, which takes less time than to sort them.
  std::vector<State> Extend(size_t e) const {
    const std::vector<State>& before = layers_.back();
    std::vector<std::vector<State>> runs(problem_.edges[e].size());
    for (size_t o = 0; o < runs.size(); ++o) {
      const BitOption& option = problem_.edges[e][o];
      for (size_t s = 0; s < before.size(); ++s) {
        const State state{before[s].bytes + option.bytes, before[s].variance + option.variance, s, o};
        if (state.bytes + rest_bytes_[e + 1] > problem_.budget_bytes) break;
        if (Bound(state, e + 1) < best_variance_) runs[o].push_back(state);
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

  void Trace(State state) {
    for (size_t e = problem_.edges.size(); e-- > 0;) {
      best_[e] = state.option;
      state = layers_[e][state.parent];
    }
  }

  const BitProblem& problem_;
  const size_t most_states_;
  int64_t total_of_cheapest_ = 0;
  double price_ = 0;  // variance per byte
  BitAllocation best_;
  double best_variance_ = kInfinite;
  std::vector<double> rest_cost_;           // of the edges from e on, at price_
  std::vector<int64_t> rest_bytes_;         // the fewest bytes of the edges from e on
  std::vector<std::vector<State>> layers_;  // after each edge
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
