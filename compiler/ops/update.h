// How optimizers update a parameter: one row each (update.cc).
#pragma once

#include <string>
#include <vector>

namespace act {

// The operands of an update's node are the parameter, its gradient, its state and the step's scalars; where
// gradients are clipped, the factor of the gradient comes last.
struct UpdateRule {
  std::string op;                    // the operator in the op table
  std::vector<std::string> state;    // tensors of the parameter's shape that are kept between steps
  std::vector<std::string> scalars;  // names of runtime/plan/optimizer.h
  // The node makes a direction and leaves the parameter alone; LambStep takes the step, at the length of the
  // trust ratio.
  bool makes_direction = false;
};

// Of --optimizer; null where there is none of that name.
const UpdateRule* FindUpdateRule(const std::string& optimizer);

// sum += weight * gradient, and LambStep: operators that are no optimizer.
const UpdateRule& AccumulateRule();
const UpdateRule& LambStepRule();

}  // namespace act
