// The numbers of one step, for comparison with another framework: loss, gradients and running statistics.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"
#include "runtime/executor/executor.h"

namespace act {

// Watches one step. A gradient lives only until its update has run, so it is copied just before; where a step
// has several micro-batches, what is left are the sums that the update read.
class StepDump : public NodeObserver {
 public:
  explicit StepDump(const BoundGraph& graph);
  llvm::Error BeforeNode(size_t position) override;

  // After the step: "loss" (one f32), "grad.NAME" of each parameter and "buffer.NAME", as safetensors.
  llvm::Error Write(const std::string& path, double loss, const std::vector<PersistentTensor>& tensors) const;

 private:
  struct Gradient {
    std::string name;           // "grad." and the parameter's name
    std::vector<int64_t> dims;  // the parameter's
    const TensorView* view = nullptr;
    std::vector<std::byte> copy;
  };
  const BoundGraph& graph_;
  std::multimap<size_t, Gradient> by_update_;  // position of the update node -> its gradients
};

}  // namespace act
