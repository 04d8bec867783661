// Access to the parameters' gradients during one pass over a batch: watched, or copied, while they
// exist.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"

namespace act {

// Watches a run. A gradient lives only until its update has run, so it is shown just before. Where
// a step has several micro-batches, the sums that the update reads are shown. Gradients that are
// outputs of the graph (a plan without an optimizer) are shown after the last node.
class GradientWatch : public NodeObserver {
 public:
  // `graph` must outlive this.
  explicit GradientWatch(const BoundGraph& graph);
  llvm::Error BeforeNode(size_t position) override;
  llvm::Error AfterNode(size_t position) override;

 protected:
  struct Source {
    std::string name;           // of the parameter
    std::vector<int64_t> dims;  // the parameter's
    size_t before;              // node; the number of nodes stands for after the last one
    const TensorView* view;
  };
  // Gradient `i` now exists, in the tensor of its source.
  virtual llvm::Error See(size_t i) = 0;
  // In the order of the nodes that update the parameters.
  const std::vector<Source>& sources() const { return sources_; }
  Device& device() const { return device_; }

 private:
  Device& device_;
  size_t nodes_;
  std::vector<Source> sources_;
};

class GradientCapture : public GradientWatch {
 public:
  struct Gradient {
    std::string name;           // of the parameter
    std::vector<int64_t> dims;  // the parameter's
    DType dtype = DType::kFloat32;
    std::vector<std::byte> bytes;
  };

  // Allocates everything that a run needs.
  explicit GradientCapture(const BoundGraph& graph);

  // The gradients of the last run, in the order of the nodes that update the parameters.
  const std::vector<Gradient>& gradients() const { return gradients_; }

 private:
  llvm::Error See(size_t i) override;

  std::vector<Gradient> gradients_;
};

}  // namespace act
