// Queries and keys of attention without their scales and transposes.
#pragma once

#include <string>

#include "compiler/ops/graph_builder.h"
#include "passes/recognize/match_attention.h"

namespace act {

class AttentionFactors {
 public:
  // Both must outlive this.
  AttentionFactors(GraphBuilder& builder, const AttentionMatcher& nodes) : builder_(builder), nodes_(nodes) {}

  // v as the reshapes and transposes of a tensor that is not scaled, and with its last two axes swapped if `swap`.
  // Multiplies `scale` by the scale. SDPA of PyTorch, as exporters write it out, scales keys after it has transposed
  // them between reshapes.
  llvm::Expected<ValueId> Unscaled(ValueId v, bool swap, double& scale, const std::string& name,
                                   int depth = kDeepest);
  // v in other dims. Leaves out reshapes before this one.
  llvm::Expected<ValueId> Reshaped(ValueId v, const Dims& dims, const std::string& name);

 private:
  llvm::Expected<ValueId> SwapLastTwo(ValueId v, const std::string& name);

  GraphBuilder& builder_;
  const AttentionMatcher& nodes_;
};

}  // namespace act
