// A fused loop as CUDA C++, to be compiled when a plan is loaded. kernels/cuda/source/README.md has its
// conventions.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/fused_plan.h"
#include "kernels/cuda/libraries.h"

namespace act::cuda {

// The text of a loop's kernel. It names the program, fixed extents and codecs, and nothing else of a run: its
// parameter struct has the rest, in the order of ParameterFields.
KernelSource FusedSource(const CudaLoop& loop, const KernelSite& site);

// A field of the parameter struct.
struct ParameterField {
  enum class Kind {
    kStep,      // const StepBlock*
    kInput,     // pointer to operand `number`
    kOutput,    // to result `number`
    kPartial,   // double*, the partial sums of result `number`
    kWalk,      // LoopWalk
    kStream,    // int32_t, of CudaLoop::streams[number]
    kConstant,  // float, constant `number` of the program: it depends on the batch
  };
  Kind kind;
  int32_t number = 0;
};
std::vector<ParameterField> ParameterFields(const CudaLoop& loop);

}  // namespace act::cuda
