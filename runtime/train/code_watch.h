// Finds the first saved activation that holds NaN, which explains a loss that becomes NaN later.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"

namespace act {

// Looks at what each node has encoded. It reads only the metadata of groups, one or two bytes for a
// hundred bytes of the original tensor. Allocates no memory during a run.
class CodeWatch : public NodeObserver {
 public:
  // Both must outlive this.
  CodeWatch(const Plan& plan, const BoundGraph& graph);
  llvm::Error AfterNode(size_t position) override;

  // The first code of the run that holds NaN ("saved activation 'conv1 (Conv)' (uniform4,g256): 3
  // of its 96 groups ..."). Empty if there is none.
  std::string Found() const;

 private:
  struct Code {
    size_t node, output;
    std::string name;  // of the edge, or of the node that encodes within the backward pass
    Codec codec;
    int64_t elements, sample_bytes;  // of a sample
  };
  const BoundGraph& graph_;
  std::vector<Code> codes_;  // in the order of nodes
  const Code* found_ = nullptr;
  int64_t not_finite_ = 0, seen_ = 0;  // groups of the code, or elements of a cast
};

}  // namespace act
