#include "passes/planning/schedule.h"

#include <algorithm>
#include <numeric>

namespace act {
namespace {

// Rounds of moves over all nodes. Each is linear in the graph, and two or three find all there is.
constexpr int kRounds = 4;

struct Footprint {
  int64_t peak = 0;
  double mean = 0;
  bool BetterThan(const Footprint& other) const {
    return peak < other.peak || (peak == other.peak && mean < other.mean * (1 - 1e-9));
  }
};

Footprint FootprintOf(const ScheduleProblem& problem, const Schedule& schedule,
                      std::span<const ScheduleProblem::Overwrite> overwrites = {}) {
  std::vector<int32_t> position(static_cast<size_t>(problem.nodes));
  for (size_t i = 0; i < schedule.size(); ++i)
    position[static_cast<size_t>(schedule[i])] = static_cast<int32_t>(i);
  // Before each node, and after the last. A tensor lives for one node at least, even if there is no node.
  std::vector<int64_t> change(static_cast<size_t>(std::max(problem.nodes, 1)) + 1, 0);
  std::vector<int32_t> ends;  // the last node of each tensor, by its position
  for (const auto& t : problem.tensors) {
    int32_t first = t.maker < 0 ? 0 : position[static_cast<size_t>(t.maker)], last = first;
    for (int32_t r : t.readers) last = std::max(last, position[static_cast<size_t>(r)]);
    ends.push_back(t.to_end ? problem.nodes : last);
    change[static_cast<size_t>(first)] += t.bytes;
    if (!t.to_end) change[static_cast<size_t>(last) + 1] -= t.bytes;
  }
  for (auto of = overwrites.begin(); of != overwrites.end();) {
    const auto next = std::find_if(of, overwrites.end(), [&](const auto& o) { return o.node != of->node; });
    const int32_t at = position[static_cast<size_t>(of->node)];
    const int64_t in_place =
        BytesInPlace(problem, {of, next}, [&](int32_t t) { return ends[static_cast<size_t>(t)] == at; });
    change[static_cast<size_t>(at)] -= in_place;
    change[static_cast<size_t>(at) + 1] += in_place;
    of = next;
  }
  Footprint f;
  int64_t live = 0;
  for (int32_t i = 0; i < problem.nodes; ++i) {
    live += change[static_cast<size_t>(i)];
    f.peak = std::max(f.peak, live);
    f.mean += static_cast<double>(live) / problem.nodes;
  }
  return f;
}

class Solver {
 public:
  explicit Solver(const ScheduleProblem& problem) : problem_(problem), needs_(size()), needed_by_(size()) {
    for (const auto& t : problem.tensors)
      for (int32_t r : t.readers)
        if (t.maker >= 0) AddEdge(t.maker, r);
    for (const auto& [a, b] : problem.before) AddEdge(a, b);
  }

  Schedule Run() {
    Schedule best(size());
    std::iota(best.begin(), best.end(), 0);
    Footprint footprint = FootprintOf(problem_, best);
    for (int round = 0; round < kRounds; ++round) {
      const Schedule moved = MoveAll(best);
      const Footprint now = FootprintOf(problem_, moved);
      if (!now.BetterThan(footprint)) break;
      best = moved;
      footprint = now;
    }
    return best;
  }

 private:
  size_t size() const { return static_cast<size_t>(problem_.nodes); }
  void AddEdge(int32_t a, int32_t b) {
    needs_[static_cast<size_t>(b)].push_back(a);
    needed_by_[static_cast<size_t>(a)].push_back(b);
  }

  // The live bytes after each node minus those before it, in this order.
  std::vector<int64_t> Changes(const std::vector<int32_t>& position) const {
    std::vector<int64_t> change(size(), 0);
    for (const auto& t : problem_.tensors) {
      int32_t last = t.maker;
      for (int32_t r : t.readers)
        if (last < 0 || position[static_cast<size_t>(r)] > position[static_cast<size_t>(last)]) last = r;
      if (t.maker >= 0) change[static_cast<size_t>(t.maker)] += t.bytes;
      if (last >= 0 && !t.to_end) change[static_cast<size_t>(last)] -= t.bytes;
    }
    return change;
  }

  // One round: gives each node a key and orders the nodes by it. A node that frees memory gets the
  // place right after the last node that it needs. A node that takes memory gets the place right
  // before the first node that needs it.
  Schedule MoveAll(const Schedule& order) const {
    std::vector<int32_t> position(size());
    for (size_t i = 0; i < order.size(); ++i)
      position[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    const std::vector<int64_t> change = Changes(position);
    std::vector<double> key(size());
    for (size_t i = 0; i < order.size(); ++i) key[static_cast<size_t>(order[i])] = static_cast<double>(i);
    for (size_t i = order.size(); i-- > 0;) {  // backwards: readers have their keys
      const auto n = static_cast<size_t>(order[i]);
      if (change[n] <= 0 || needed_by_[n].empty()) continue;
      double first = static_cast<double>(size());
      for (int32_t r : needed_by_[n]) first = std::min(first, key[static_cast<size_t>(r)]);
      key[n] = std::max(key[n], first - .5);
    }
    for (int32_t id : order) {  // forwards: the nodes that it needs have their keys
      const auto n = static_cast<size_t>(id);
      if (change[n] >= 0 || needs_[n].empty()) continue;
      double last = -1;
      for (int32_t r : needs_[n]) last = std::max(last, key[static_cast<size_t>(r)]);
      key[n] = std::min(key[n], last + .25);
    }
    return Sorted(key);
  }

  // A legal order that follows the keys. Of the nodes that may run, the one with the least key is
  // next (ties: the lesser id).
  Schedule Sorted(const std::vector<double>& key) const {
    std::vector<size_t> missing(size());
    std::vector<std::pair<double, int32_t>> ready;  // a heap, least first
    const auto later = [](const auto& a, const auto& b) { return a > b; };
    const auto push = [&](int32_t n) {
      ready.emplace_back(key[static_cast<size_t>(n)], n);
      std::push_heap(ready.begin(), ready.end(), later);
    };
    for (size_t n = 0; n < size(); ++n) {
      missing[n] = needs_[n].size();
      if (missing[n] == 0) push(static_cast<int32_t>(n));
    }
    Schedule schedule;
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end(), later);
      const int32_t n = ready.back().second;
      ready.pop_back();
      schedule.push_back(n);
      for (int32_t r : needed_by_[static_cast<size_t>(n)])
        if (--missing[static_cast<size_t>(r)] == 0) push(r);
    }
    return schedule;
  }

  const ScheduleProblem& problem_;
  std::vector<std::vector<int32_t>> needs_, needed_by_;
};

}  // namespace

int64_t BytesInPlace(const ScheduleProblem& problem, std::span<const ScheduleProblem::Overwrite> of_node,
                     llvm::function_ref<bool(int32_t tensor)> ends) {
  int64_t bytes = 0;
  for (auto overwrite = of_node.begin(); overwrite != of_node.end(); ++overwrite) {
    const bool taken = std::any_of(of_node.begin(), overwrite, [&](const auto& other) {
      return ends(other.read) && (other.read == overwrite->read || other.made == overwrite->made);
    });
    if (!taken && ends(overwrite->read)) bytes += problem.tensors[static_cast<size_t>(overwrite->made)].bytes;
  }
  return bytes;
}

int64_t PeakBytes(const ScheduleProblem& problem, const Schedule& schedule) {
  return FootprintOf(problem, schedule, problem.overwrites).peak;
}

Schedule SolveSchedule(const ScheduleProblem& problem) { return Solver(problem).Run(); }

std::optional<std::string> ValidateSchedule(const ScheduleProblem& problem, const Schedule& schedule) {
  std::vector<bool> done(static_cast<size_t>(problem.nodes), false);
  std::vector<std::vector<int32_t>> needs(static_cast<size_t>(problem.nodes));
  for (const auto& t : problem.tensors)
    for (int32_t r : t.readers) needs[static_cast<size_t>(r)].push_back(t.maker);
  for (const auto& [a, b] : problem.before) needs[static_cast<size_t>(b)].push_back(a);
  for (int32_t n : schedule) {
    if (n < 0 || n >= problem.nodes) return "node " + std::to_string(n) + " does not exist";
    if (done[static_cast<size_t>(n)]) return "node " + std::to_string(n) + " runs twice";
    for (int32_t need : needs[static_cast<size_t>(n)])
      if (need >= 0 && !done[static_cast<size_t>(need)])
        return "node " + std::to_string(n) + " runs before node " + std::to_string(need) + ", which it needs";
    done[static_cast<size_t>(n)] = true;
  }
  if (schedule.size() != done.size()) return "not every node runs";
  return std::nullopt;
}

}  // namespace act
