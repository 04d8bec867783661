#include "kernels/cuda/step_image.h"

#include "runtime/plan/optimizer.h"

namespace act::cuda {

StepImage ImageOf(const StepState& state) {
  StepImage image{.block = {.seed = state.seed,
                            .step = state.step,
                            .rounding = state.rounding,
                            .rounding_stream = state.rounding_stream},
                  .state = state};
  size_t i = 0;
  for (const NamedStepScalar& scalar : AllStepScalars())
    image.block.scalars[i++] = static_cast<float>(scalar.compute(state.update));
  return image;
}

}  // namespace act::cuda
