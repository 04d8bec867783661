// --loss: adds a loss after the predictions of a model that has none.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/ops/graph_builder.h"

namespace act::onnx_import {

struct AppendedLoss {
  ValueId loss = kNoValue;    // f32[]
  ValueId label = kNoValue;   // the new input
  ValueId logits = kNoValue;  // cross-entropy: the scores with classes last
  std::string removed = {};   // the function whose operand the loss takes; empty: none
};

// kind: cross-entropy (predictions [N, C, D..], label i64 [N, D..]), token-cross-entropy (predictions
// [N, T.., C], label i64 [N, T..]), or mse, l1, smooth-l1 with beta 1, bce-with-logits (label f32,
// dims of the predictions). Where a softmax over the classes (of cross entropies) or a sigmoid (bce-with-logits) makes
// the predictions, the loss takes its operand, because it contains that function. Each is the mean over all elements, as PyTorch's defaults are. Errors:
// another kind, dims that do not fit.
llvm::Expected<AppendedLoss> AppendLoss(GraphBuilder& builder, const std::string& kind, ValueId predictions);

}  // namespace act::onnx_import
