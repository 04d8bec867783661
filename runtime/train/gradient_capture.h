// The parameters' gradients of one pass over a batch, copied while they exist.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"

namespace act {

// Watches a run. A gradient lives only until its update has run, so it is copied just before; where a step
// has several micro-batches, what is copied are the sums that the update reads. Gradients that are outputs of
// the graph (a plan without an optimizer) are copied behind the last node.
class GradientCapture : public NodeObserver {
 public:
  struct Gradient {
    std::string name;           // of the parameter
    std::vector<int64_t> dims;  // the parameter's
    DType dtype = DType::kFloat32;
    std::vector<std::byte> bytes;
  };

  // `graph` must outlive this. Everything that a run needs is allocated here.
  explicit GradientCapture(const BoundGraph& graph);
  llvm::Error BeforeNode(size_t position) override;
  llvm::Error AfterNode(size_t position) override;

  // Of the last run, in the order of the nodes that update them.
  const std::vector<Gradient>& gradients() const { return gradients_; }

 private:
  struct Source {
    size_t before;  // node; the number of nodes: behind the last
    const TensorView* view;
  };
  void Copy(size_t i);

  size_t nodes_;
  std::vector<Gradient> gradients_;
  std::vector<Source> sources_;  // of gradients_, in ascending order of nodes
};

}  // namespace act
