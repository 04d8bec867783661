// The learning rate as a function of the step.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>

namespace act {

// "constant"                  the base rate
// "step,EVERY,FACTOR"         times FACTOR after each EVERY steps
// "cosine[,MIN[,STEPS]]"      falls from the base rate to MIN (0) at step STEPS (the end of
//                             this run), and stays there:
//                             min + (base - min) (1 + cos(pi step / steps)) / 2
//                             (Loshchilov and Hutter, SGDR, 2017)
// "onecycle[,PEAK[,STEPS[,RISE[,DIV[,FINAL_DIV]]]]]"
//                             PyTorch's OneCycleLR with max_lr = PEAK (1) times the base rate,
//                             total_steps = STEPS (the end of this run), pct_start = RISE (.3),
//                             div_factor = DIV (25), final_div_factor = FINAL_DIV (1e4), and
//                             cycle_momentum = False. The last rate stays.
//
// A warm-up "STEPS[,START]" goes from START (0) times the base rate to the base rate in equal steps.
// The schedule starts at its end, as with PyTorch's SequentialLR of LinearLR and the schedule. Where
// a cosine has STEPS, these are counted from the start of the run, with the warm-up.
class LearningRateSchedule {
 public:
  // Errors name --lr-schedule or --warmup. An empty `warmup` is none.
  static llvm::Expected<LearningRateSchedule> Parse(const std::string& text, const std::string& warmup = "");

  // The rate of step 0, 1, ... `end_step` is the end of the run, counted from step 0 (0: unknown).
  double At(double base, uint64_t step, uint64_t end_step) const;

 private:
  enum class Kind : uint8_t { kConstant, kStep, kCosine, kOneCycle };
  llvm::Error ParseWarmup(const std::string& text);
  double OneCycle(double base, uint64_t step, uint64_t steps) const;

  Kind kind_ = Kind::kConstant;
  uint64_t every_ = 1;
  double factor_ = 1;
  double minimum_ = 0;
  uint64_t steps_ = 0;  // 0: the end of the run
  double peak_ = 1, rise_ = 0.3, div_ = 25, final_div_ = 1e4;
  uint64_t warmup_ = 0;  // steps
  double warmup_start_ = 0;
};

}  // namespace act
