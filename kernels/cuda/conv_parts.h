// A convolution by the library, in one call or a part of the samples at a time. Many engines first bring their
// operands into another order, in the workspace: for all samples it is too small, for some it is not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/engine_cache.h"

namespace act::cuda {

// Consecutive samples, and the engine for them.
struct ConvPart {
  int64_t first = 0, samples = 0;
  std::shared_ptr<LibraryCall> call;  // parts of as many samples share it
  double seconds = 0;                 // 0: not timed
};

// Parts of `samples` samples, and perhaps a last one of fewer, each within `limit` bytes of workspace. The
// problem's alignment is that of all parts. After the first part, a weight's gradient is added to what is there.
// None, with the reason, if a part has no engine.
std::vector<ConvPart> CutSamples(EngineCache& engines, ConvolutionProblem problem, int64_t samples,
                                 int64_t limit, std::string* why);

// The fastest cut. Where engines are not timed: as few parts as let engines use tensor cores, where these are
// allowed. None, with the reason for all samples, if no cut has engines.
std::vector<ConvPart> ChooseParts(EngineCache& engines, ConvolutionProblem problem, int64_t limit,
                                  std::string* why);

bool UseTensorCores(const std::vector<ConvPart>& parts);
int64_t WorkspaceBytes(const std::vector<ConvPart>& parts);

// ", in 4 parts of the samples", or nothing for one.
std::string PartsText(const std::vector<ConvPart>& parts);

}  // namespace act::cuda
