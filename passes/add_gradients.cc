// The backward pass and the updates (compiler/autodiff).
#include "compiler/autodiff/differentiate.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {

llvm::Error AddGradients(Graph& graph, PassContext& context) {
  ACT_TRY(Gradients gradients, Differentiate(graph, context.loss, context.trainable, context.optimizer));
  context.saved = std::move(gradients.saved);
  return llvm::Error::success();
}

}  // namespace act
