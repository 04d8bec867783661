// actrun --adapt-every: moves levels between codes while a plan trains, in the promised memory.
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

// The levels of the codes of `current`, for a checkpoint. `file`: the plan as compiled.
CodeLevels LevelsOf(const Plan& file, const Plan& current);
// `plan` with the levels of a checkpoint; nullopt if they belong to another plan. Errors: numbers
// that are not levels of its codes.
llvm::Expected<std::optional<Plan>> WithLevels(const Plan& plan, const CodeLevels& levels);

// Measures after every `every` steps what each code with levels adds to the gradient's variance, on
// the batch of the next step. Gives codes other numbers of levels if the sum is predicted to fall.
// Together the codes take at most the bytes that they take in the plan's file, and the step at most
// the peak with which the executor began: the layout is solved anew, and an allocation with a
// higher peak is rejected. One batch tells little, so earlier measurements count half. Decisions
// depend only on the plan's file, the contents of a checkpoint and the batch, so that a resumed run
// decides the same.
class LevelAdapter : public BetweenSteps {
 public:
  // `file` is the plan as compiled and must outlive this; this must outlive the executor. every =
  // 0: levels stay as they are.
  LevelAdapter(const Plan& file, int64_t every, const volatile std::sig_atomic_t* stop)
      : file_(file), every_(every), stop_(stop) {}

  // Errors: no code of the plan has levels.
  llvm::Error CheckPlan() const;
  // Continues with the levels of a checkpoint. Returns false if the executor's memory does not hold
  // them because they belong to another batch size. The plan's own levels then stay. Errors: those
  // of Executor::Rebind.
  llvm::Expected<bool> Resume(Executor& executor, Plan plan, const CodeLevels& levels);
  llvm::Expected<Outcome> Before(Executor& executor, BatchSource& data, int64_t batch,
                                 const StepState& state) override;

  // The levels of the current codes; empty if nothing was ever measured.
  CodeLevels levels() const;
  int64_t every() const { return every_; }
  const std::vector<Adaptation>& history() const { return history_; }

 private:
  const Plan& current() const { return current_ ? *current_ : file_; }
  // Adds what was measured of each code, with its present codec, to shares_.
  void Remember(const std::vector<PlanCode>& codes, const std::vector<double>& variance);
  struct Form {
    std::unique_ptr<Plan> plan;  // null: no move is worthwhile
    MemoryLayout layout;
  };
  llvm::Expected<Form> Improve(const Executor& executor, const Plan& measured, int64_t budget_bytes) const;

  const Plan& file_;
  const int64_t every_;
  const volatile std::sig_atomic_t* stop_;
  std::unique_ptr<Plan> current_;  // null: file_
  // By edge: the share of a code whose RelativeError is 1. Empty: not measured.
  std::vector<double> shares_;
  std::unique_ptr<CodeSensitivityMeter> meter_;
  std::vector<Adaptation> history_;
};

}  // namespace act
