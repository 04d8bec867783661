// Orders a step's nodes for least memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace act {

// Nodes in a legal order. Each tensor is made by one node and lives until
// the last node that reads it.
struct ScheduleProblem {
  struct Tensor {
    int64_t bytes = 0;
    int32_t maker = -1;            // node; -1: it exists before the step
    std::vector<int32_t> readers;  // nodes
    bool to_end = false;           // lives until the step ends
  };
  int32_t nodes = 0;
  std::vector<Tensor> tensors;
  // (a, b): a runs before b, in addition to what tensors imply
  std::vector<std::pair<int32_t, int32_t>> before;
};

using Schedule = std::vector<int32_t>;  // node ids in execution order

// The largest number of live bytes over the schedule. The tensors that a node makes and reads live
// at it.
int64_t PeakBytes(const ScheduleProblem& problem, const Schedule& schedule);

// Starts from the given order (ids 0, 1, ...). Moves each node that frees memory as early as its
// operands allow, and each that takes memory as late as its readers allow, while the peak, and then
// the mean of the live bytes, falls. It is deterministic. The result is
// never worse than the given order.
Schedule SolveSchedule(const ScheduleProblem& problem);

// Independent of the solver. nullopt: every node stands once, after all nodes that it needs.
std::optional<std::string> ValidateSchedule(const ScheduleProblem& problem, const Schedule& schedule);

}  // namespace act
