#include "runtime/train/run_curves.h"

namespace act {

llvm::Error RunCurves::AfterStep(const StepRecord& step) {
  loss.Add(step.step, step.loss);
  learning_rate.Add(step.step, step.learning_rate);
  seconds.Add(step.step, step.seconds);
  if (step.seconds > 0) samples_per_second.Add(step.step, static_cast<double>(step.samples) / step.seconds);
  if (step.gradient_norm) gradient_norm.Add(step.step, *step.gradient_norm);
  if (steps++ == 0) first_loss = step.loss;
  last_loss = step.loss;
  return llvm::Error::success();
}

llvm::Error RunCurves::AfterEvaluation(const Executor& /*executor*/, const TrainPosition& position,
                                       const Evaluation& evaluation) {
  evaluations.emplace_back(position.step, evaluation);
  return llvm::Error::success();
}

llvm::Error RunCurves::AfterNotFinite(uint64_t step, const NotFinite& found) {
  warnings.push_back("step " + std::to_string(step) + ": " + found.text);
  return llvm::Error::success();
}

}  // namespace act
