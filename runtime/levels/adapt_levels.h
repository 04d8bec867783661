// actrun --adapt-every: moves levels between codes during training, within the memory that was
// promised.
#pragma once

#include <llvm/Support/Error.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/levels/allocate_codecs.h"
#include "runtime/measure/code_sensitivity.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/plan.h"
#include "runtime/train/adaptation.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/trainer.h"

namespace act {

// The levels of the codes of `current`, for a checkpoint. `file` is the plan as compiled.
CodeLevels LevelsOf(const Plan& file, const Plan& current);
// `plan` with the levels of a checkpoint. Nullopt if they belong to another plan. Errors: numbers
// that are not levels of its codes.
llvm::Expected<std::optional<Plan>> WithLevels(const Plan& plan, const CodeLevels& levels);

// After every `every` steps, measures what each code with levels adds to the gradient's variance on
// the batch of the next step, and gives codes other numbers of levels if the predicted sum is then
// lower. All such codes together take at most the bytes that they take in the plan's file, and the
// step takes at most the peak that the executor began with: the layout is solved again, and an
// allocation with a higher peak is rejected. One batch tells little, so earlier measurements count
// half. The decision depends only on the plan's file, the checkpoint and the batch, so a resumed
// run decides the same.
class LevelAdapter : public BetweenSteps {
 public:
  // `file` is the plan as compiled and must outlive this; this must outlive the executor. every =
  // 0: levels stay as they are.
  LevelAdapter(const Plan& file, int64_t every, const volatile std::sig_atomic_t* stop)
      : file_(file), every_(every), stop_(stop) {}

  // Errors: no code of the plan has levels.
  llvm::Error CheckPlan() const;
  // Continues with the levels of a checkpoint. False if the executor's memory cannot hold them
  // (they are for another batch size); then the plan's own levels stay. Errors: those of
  // Executor::Rebind.
  llvm::Expected<bool> Resume(Executor& executor, Plan plan, const CodeLevels& levels);
  llvm::Expected<Outcome> Before(Executor& executor, BatchSource& data, int64_t batch,
                                 const StepState& state) override;

  // The present levels of the codes. Empty if nothing was ever measured.
  CodeLevels levels() const;
  int64_t every() const { return every_; }
  const std::vector<Adaptation>& history() const { return history_; }

 private:
  const Plan& current() const { return current_ ? *current_ : file_; }
  // Adds the measurement of each code, in its present form, to shares_.
  void Remember(const std::vector<PlanCode>& codes, const std::vector<double>& variance);
  struct Form {
    std::unique_ptr<Plan> plan;  // null: no change is worth making
    MemoryLayout layout;
  };
  llvm::Expected<Form> Improve(const Executor& executor, const Plan& measured, int64_t budget_bytes) const;

  const Plan& file_;
  const int64_t every_;
  const volatile std::sig_atomic_t* stop_;
  std::unique_ptr<Plan> current_;  // null: file_
  // By edge: what a code of RelativeError 1 would add to the variance. Empty: not measured.
  std::vector<double> shares_;
  std::unique_ptr<CodeSensitivityMeter> meter_;
  std::vector<Adaptation> history_;
};

}  // namespace act
