// What tests may ask of libact_fake_cuda.so beyond kernels/cuda/libraries.h, of a toolkit that it has opened.
#pragma once

#include "kernels/cuda/libraries.h"
#include "tests/fake_cuda/accesses.h"

namespace act::fake {

class Controls {
 public:
  virtual ~Controls() = default;
  // As ACT_FAKE_SEED, from now on.
  virtual void Seed(uint64_t seed) = 0;
  // Begins to count accesses of kernels, which makes them slower. Forgets what was counted.
  virtual void WatchAccesses(bool watch) = 0;
  virtual const AccessStatistics& Accesses() = 0;
  // Kernels that have been compiled, and convolutions for which an engine was searched, or loaded.
  struct Work {
    int64_t compiled = 0, searched = 0, loaded = 0;
    bool operator==(const Work&) const = default;
  };
  virtual Work WorkSoFar() = 0;
};

// Exported under kControlsOf.
using ControlsOf = Controls* (*)(cuda::Toolkit*);
inline constexpr char kControlsOf[] = "act_fake_controls";

}  // namespace act::fake
