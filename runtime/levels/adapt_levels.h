// actrun --adapt-every: levels move between codes while a plan trains, in the memory that was promised.
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

// The levels that the codes of `current` have, for a checkpoint; `file`: the plan as compiled.
CodeLevels LevelsOf(const Plan& file, const Plan& current);
// `plan` with the levels of a checkpoint. Nullopt where they are of another plan. Errors: numbers that are no
// levels of its codes.
llvm::Expected<std::optional<Plan>> WithLevels(const Plan& plan, const CodeLevels& levels);

// Measures, each time that `every` steps are done, what each code with levels adds to the gradient's variance
// on the batch of the step to come, and gives codes other numbers of levels where the sum then is predicted
// to be lower. All such codes together take at most the bytes that they take in the plan's file, and the step
// at most the peak that the executor began with: the layout is solved anew, and an allocation with a higher
// peak is not taken. One batch tells little, so what was measured before counts half. What it decides depends
// on the plan's file, what a checkpoint holds and the batch alone: a run that is resumed decides the same.
class LevelAdapter : public BetweenSteps {
 public:
  // `file` is the plan as compiled and must outlive this; this must outlive the executor. every = 0: levels
  // stay as they are.
  LevelAdapter(const Plan& file, int64_t every, const volatile std::sig_atomic_t* stop)
      : file_(file), every_(every), stop_(stop) {}

  // Errors: nothing in the plan has levels.
  llvm::Error CheckPlan() const;
  // Goes on with the levels of a checkpoint. False where the executor's memory does not hold them (they are
  // of another batch size); then the plan's own stay. Errors: those of Executor::Rebind.
  llvm::Expected<bool> Resume(Executor& executor, Plan plan, const CodeLevels& levels);
  llvm::Expected<Outcome> Before(Executor& executor, BatchSource& data, int64_t batch,
                                 const StepState& state) override;

  // Of the codes as they are; empty where nothing was ever measured.
  CodeLevels levels() const;
  int64_t every() const { return every_; }
  const std::vector<Adaptation>& history() const { return history_; }

 private:
  const Plan& current() const { return current_ ? *current_ : file_; }
  // Counts what was measured of each code, as its codec is, into shares_.
  void Remember(const std::vector<PlanCode>& codes, const std::vector<double>& variance);
  struct Form {
    std::unique_ptr<Plan> plan;  // null: nothing that is worth moving
    MemoryLayout layout;
  };
  llvm::Expected<Form> Improve(const Executor& executor, const Plan& measured, int64_t budget_bytes) const;

  const Plan& file_;
  const int64_t every_;
  const volatile std::sig_atomic_t* stop_;
  std::unique_ptr<Plan> current_;  // null: file_
  std::vector<double> shares_;     // by edge: of a code whose RelativeError is 1; empty: not measured
  std::unique_ptr<CodeSensitivityMeter> meter_;
  std::vector<Adaptation> history_;
};

}  // namespace act
