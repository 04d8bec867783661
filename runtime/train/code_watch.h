// Finds the first saved activation or bfloat16 value that holds NaN or infinity, which explains a loss
// that becomes NaN later.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"

namespace act {

// A saved activation or value that holds NaN or infinity.
struct NotFinite {
  std::string name;  // "conv1 (Conv)"
  std::string text;  // "saved activation 'conv1 (Conv)' (uniform4,g256): 3 of its 96 groups ..."
};

// Looks at what each node has encoded. It reads only the metadata of groups, one or two bytes for a
// hundred bytes of the original tensor. If asked to, it also reads every bfloat16 value, which takes
// about as long as a loop over each. Allocates no memory during a run.
class CodeWatch : public NodeObserver {
 public:
  // Both must outlive this.
  CodeWatch(const Plan& plan, const BoundGraph& graph, bool values = false);
  llvm::Error AfterNode(size_t position) override;

  // The first code of the run that holds NaN, or the first value ("value 'conv1' (bf16): 3 of its 96
  // elements ...").
  std::optional<NotFinite> Found() const;

 private:
  struct Code {
    size_t node, output;
    std::string name;  // of the edge, or of the node that encodes within the backward pass
    Codec codec;
    int64_t elements, sample_bytes;  // of a sample
    bool value = false;              // no code: a bfloat16 value, of which a run looks at all elements
  };
  const BoundGraph& graph_;
  std::vector<Code> codes_;  // in the order of nodes
  const Code* found_ = nullptr;
  int64_t not_finite_ = 0, seen_ = 0;  // groups of the code, or elements of a cast
};

}  // namespace act
