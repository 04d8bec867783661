// Orders a step's nodes for least memory.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  // If a node is the last to read a tensor, what it makes may lie in its place. A tensor is overwritten once.
  struct Overwrite {
    int32_t node = 0;
    int32_t made = 0, read = 0;  // tensors of the same size
  };
  int32_t nodes = 0;
  std::vector<Tensor> tensors;
  std::vector<Overwrite> overwrites;  // by node, and of a node in the order in which they are tried
  // (a, b): a runs before b, in addition to what tensors imply
  std::vector<std::pair<int32_t, int32_t>> before;
};

using Schedule = std::vector<int32_t>;  // node ids in execution order

// The bytes of what a node makes in the place of tensors that it reads. `of_node`: all its overwrites; `ends`: whether
// the node is the last to read a tensor.
int64_t BytesInPlace(const ScheduleProblem& problem, std::span<const ScheduleProblem::Overwrite> of_node,
                     llvm::function_ref<bool(int32_t tensor)> ends);

// The largest number of live bytes over the schedule. The tensors that a node makes and reads live
// at it, but those that lie in one place count once.
int64_t PeakBytes(const ScheduleProblem& problem, const Schedule& schedule);

// Starts from the given order (ids 0, 1, ...). Moves each node that frees memory as early as its
// operands allow, and each that takes memory as late as its readers allow, while the peak, and then
// the mean of the live bytes, falls. It is deterministic, and takes no notice of overwrites. Without
// these the result is never worse than the given order.
Schedule SolveSchedule(const ScheduleProblem& problem);

// Independent of the solver. nullopt: every node stands once, after all nodes that it needs.
std::optional<std::string> ValidateSchedule(const ScheduleProblem& problem, const Schedule& schedule);

}  // namespace act
