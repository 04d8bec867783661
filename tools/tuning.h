// actrun --tune: whether the processor's kernels are chosen by time.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/executor/kernel_tuner.h"

namespace act {

enum class Tuning {
  kOff,    // the kernel lists' order decides
  kOn,     // what no run has timed on this machine is timed
  kForce,  // everything is
};

// The value of --tune if it is given, else of $ACT_TUNE, else on. Any other value is an error.
llvm::Expected<Tuning> ReadTuning(const std::string& flag);

// This machine with so many threads, for files of what was timed on it.
TimedMachine ThisMachine(const KernelRegistry& registry, int threads);

// Null if it is off. The file of choices is in $ACT_TUNE_CACHE, or else where compiled kernels are kept.
std::unique_ptr<KernelTuner> MakeTuner(Tuning tuning, const KernelRegistry& registry, int threads,
                                       std::function<void(const std::string&)> say);

}  // namespace act
