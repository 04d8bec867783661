// Tells which saved activation is the first to hold NaN, so that a loss that becomes NaN later has a cause.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"

namespace act {

// Looks at what each node has encoded: at the metadata of groups alone, a byte or two of a hundred that the
// code was made of. Takes none of its memory during a run.
class CodeWatch : public NodeObserver {
 public:
  // Both must outlive this.
  CodeWatch(const Plan& plan, const BoundGraph& graph);
  llvm::Error AfterNode(size_t position) override;

  // The first code of the run that holds NaN ("saved activation 'conv1 (Conv)' (uniform4,g256): 3 of its 96
  // groups ..."); empty: none does.
  std::string Found() const;

 private:
  struct Code {
    size_t node, output;
    std::string name;  // of the edge; of what a backward pass encodes for itself, its node's
    Codec codec;
    int64_t elements, sample_bytes;  // of a sample
  };
  const BoundGraph& graph_;
  std::vector<Code> codes_;  // in the order of nodes
  const Code* found_ = nullptr;
  int64_t not_finite_ = 0, seen_ = 0;  // groups of its code, or elements of a cast's
};

}  // namespace act
