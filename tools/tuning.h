// actrun --tune: whether the processor's kernels, or a card's engines of convolutions, are chosen by time.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/cuda/engine_timer.h"
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

// How a card's engines are timed. Nullopt if it is off.
std::optional<cuda::EngineTimerOptions> EngineTiming(Tuning tuning, cuda::Toolkit& toolkit,
                                                     std::function<void(const std::string&)> say);

}  // namespace act
