// Appends the nodes that use complete gradients: sums over micro-batches, clipping,
// the optimizer's update.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/autodiff/parameter_rules.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/update.h"

namespace act {

struct UpdateOptions {
  // "none": the gradients become graph outputs, named "grad.<parameter>".
  std::string optimizer = "sgd";
  double clip_norm = 0;    // bound on the norm of all gradients together; 0: no bound
  int64_t accumulate = 1;  // micro-batches for one update
  // The norm of all gradients together becomes an output of the graph. Where gradients are clipped it is one
  // in any case.
  bool grad_norm = false;
  StateFormat state = StateFormat::kFloat32;
  bool quantize_tables = false;  // 8 bits for tables that a Gather reads, too; else these have bfloat16
  // The gradient of a table that a Gather reads need not exist whole (passes/loops/update_rows.cc).
  bool by_rows = true;
  std::map<std::string, UpdateFactors> factors = {};  // by the names of parameters; 1 for all others
};

class UpdateAppender {
 public:
  UpdateAppender(GraphBuilder& builder, const UpdateOptions& options);

  // Call once the gradient of `parameter` is complete. Its update follows at once, so that the
  // gradient does not outlive it. Where gradients are clipped, the update waits for Finish. Where only
  // their norm is asked for, each is squared beside its update, and only the sum is kept.
  llvm::Error Add(ValueId parameter, ValueId gradient);
  // Call once all gradients are complete.
  llvm::Error Finish();

 private:
  llvm::Error MakeOutput(ValueId parameter, ValueId gradient);
  llvm::Expected<ValueId> Accumulate(const std::string& parameter, ValueId gradient);
  llvm::Expected<ValueId> ClipFactor();
  llvm::Error AddToSum(ValueId gradient_squares);
  llvm::Expected<ValueId> Norm();
  llvm::Error Update(ValueId parameter, ValueId gradient, ValueId factor);
  StateFormat FormatOf(ValueId parameter) const;
  llvm::Error QuantizedUpdate(ValueId parameter, ValueId gradient, ValueId factor, StateFormat format);
  llvm::Error LambStep(ValueId parameter, ValueId direction);
  llvm::Expected<ValueId> SumOfSquares(ValueId x, const std::string& name);
  UpdateFactors FactorsOf(ValueId parameter) const;
  llvm::Expected<ValueId> Scalar(const std::string& name);
  // The step's number for parameters with these factors.
  llvm::Expected<ValueId> Scalar(const std::string& name, const UpdateFactors& factors);
  llvm::Error AppendScalars(const UpdateRule& rule, const UpdateFactors& factors,
                            std::vector<ValueId>& operands);

  GraphBuilder& builder_;
  const UpdateOptions options_;
  int64_t quantized_ = 0;                             // parameters so far
  const UpdateRule* const rule_;                      // null: optimizer "none"
  std::vector<std::pair<ValueId, ValueId>> waiting_;  // parameter and gradient, to be clipped
  // Of the squares of gradients: how many gradients each sums up, and the sum.
  std::vector<std::pair<size_t, ValueId>> sums_;
};

}  // namespace act
