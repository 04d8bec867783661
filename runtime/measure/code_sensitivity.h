// Measures what each code of a plan adds to the gradient's variance while training: in the run's
// own arena, by the unchanged plan. docs/gradient_variance.md compares it to gradient_variance.h.
#pragma once

#include <llvm/Support/Error.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/batch_source.h"
#include "runtime/executor/executor.h"

namespace act {

struct CodeSensitivity {
  double gradient_square = 0;    // |g|^2 of the exact gradient, estimated
  std::vector<double> variance;  // by stream: E|g_q - g|^2 / |g|^2 by its rounding alone
};

// Take two gradients of one batch that differ only in the rounding of one code. Their squared
// distance is twice that code's share, since the errors of a code are independent from one rounding
// to the next:
//   E|g' - g''|^2 = 2 E|g' - E g'|^2
// So no exact values are needed, and no memory outside the arena but for one gradient.
class CodeSensitivityMeter {
 public:
  // Bytes that a meter of the executor's plan needs outside the arena.
  static int64_t BytesOf(const Plan& plan, int64_t batch);
  explicit CodeSensitivityMeter(const Executor& executor);

  // Runs `graph` 1 + repeats * streams times on the batch at which `data` stands, without updates.
  // `state` is that of the next step. Everything that lives between steps is left as it is, except
  // sums of gradients. Nullopt if `stop` was set meanwhile, or if a gradient is not finite. Errors:
  // a pass that fails.
  llvm::Expected<std::optional<CodeSensitivity>> Measure(Executor& executor, BoundGraph& graph,
                                                         BatchSource& data, StepState state,
                                                         std::span<const int32_t> streams, int64_t repeats,
                                                         const volatile std::sig_atomic_t* stop);

 private:
  llvm::Error Pass(Executor& executor, BoundGraph& graph, BatchSource& data, const StepState& state,
                   NodeObserver& observer);

  std::vector<float> gradient_;                  // all of them, one after the other
  std::vector<std::vector<std::byte>> buffers_;  // running statistics, as they were
};

}  // namespace act
