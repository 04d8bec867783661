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
class LearningRateSchedule {
 public:
  static llvm::Expected<LearningRateSchedule> Parse(const std::string& text);

  // The rate of step 0, 1, ... `end_step` is the end of the run, counted from step 0 (0: unknown).
  double At(double base, uint64_t step, uint64_t end_step) const;

 private:
  enum class Kind : uint8_t { kConstant, kStep, kCosine };
  Kind kind_ = Kind::kConstant;
  uint64_t every_ = 1;
  double factor_ = 1;
  double minimum_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace act
