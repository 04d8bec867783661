// Access to the parameters' gradients during one pass over a batch: watched, or copied, while they
// exist.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"

namespace act {

// Bytes of all gradients of a plan's training graph. Those of rows count as whole.
int64_t GradientBytesOf(const Plan& plan, int64_t batch);

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
    DType dtype;
    int64_t bytes;                      // of the gradient, which has the parameter's dims
    const TensorView* view;             // the gradient; or the gradients of rows of the parameter,
    const TensorView* index = nullptr;  // their index,
    const TensorView* live = nullptr;   // and a flag for each, if there are flags (runtime/plan/row_update.h)
  };
  // Gradient `i` now exists, in the tensor of its source.
  virtual llvm::Error See(size_t i) = 0;
  // In the order of the nodes that update the parameters.
  const std::vector<Source>& sources() const { return sources_; }
  // The bytes of gradient `i`, which exists now. They are valid until the next call, and until the next use of
  // the device. A gradient of rows is made whole.
  llvm::Expected<std::span<const std::byte>> Read(size_t i);
  Device& device() const { return device_; }

 private:
  llvm::Error AddRows(const Source& source);

  Device& device_;
  std::vector<std::byte> whole_, rows_, index_, live_;  // of the gradient of rows that was read last
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
