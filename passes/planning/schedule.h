// The order of a step's nodes, for least memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace act {

// Nodes in a legal order. Tensors are made by one node and live until the last node that reads them.
struct ScheduleProblem {
  struct Tensor {
    int64_t bytes = 0;
    int32_t maker = -1;            // node; -1: there before the step
    std::vector<int32_t> readers;  // nodes
    bool to_end = false;           // lives until the step ends
  };
  int32_t nodes = 0;
  std::vector<Tensor> tensors;
  std::vector<std::pair<int32_t, int32_t>> before;  // (a, b): a runs before b, beside what tensors imply
};

using Schedule = std::vector<int32_t>;  // node ids in execution order

// Max over the schedule of the live bytes: what is made at a node and what it reads live at that node.
int64_t PeakBytes(const ScheduleProblem& problem, const Schedule& schedule);

// Starting from the given order (ids 0, 1, ...): moves each node that frees memory as early as its operands
// allow, and each that takes memory as late as its readers allow, while the peak, and then the mean of the
// live bytes, falls. Deterministic; the result is never worse than the given order.
Schedule SolveSchedule(const ScheduleProblem& problem);

// Independent of the solver: nullopt when every node stands once and behind all that it needs.
std::optional<std::string> ValidateSchedule(const ScheduleProblem& problem, const Schedule& schedule);

}  // namespace act
