// How optimizers update a parameter: one row each (update.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace act {

// How the elements of an optimizer's state are kept between steps (docs/optimizers.md).
enum class StateFormat : uint8_t { kFloat32, kBFloat16, k8Bit };

// The operands of an update's node are the parameter, its gradient, its state and the step's
// scalars. With clipped gradients, the clipping factor comes last.
struct UpdateRule {
  std::string op;                    // the operator in the op table
  std::vector<std::string> state;    // tensors of the parameter's shape that are kept between steps
  std::vector<std::string> scalars;  // names of runtime/plan/optimizer.h
  // The operator of the same update for state in bfloat16 or 8 bits. Empty: there is none.
  std::string quantized = {};
  // The node makes a direction and leaves the parameter alone. LambStep takes the step, with the
  // length that the trust ratio gives.
  bool makes_direction = false;
  bool decoupled = false;  // shrinks the parameter by the decay, apart from the gradient (AdamW)
  // Without weight decay, an element whose gradient is 0 keeps its number. Only a rule without state can promise it.
  bool sparse = false;
};

// The rule that --optimizer names; null if none has this name.
const UpdateRule* FindUpdateRule(const std::string& optimizer);
// The optimizers whose state can be bfloat16 or 8 bits, as in "sgd, adam or lamb".
std::string OptimizersOfQuantizedState();

// The rule of sum += weight * gradient, which is not an optimizer. LambStep is
// another such operator.
const UpdateRule& AccumulateRule();
const UpdateRule& LambStepRule();

}  // namespace act
