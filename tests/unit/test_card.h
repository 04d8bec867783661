// The card on which tests of the CUDA backend run: the one that the processor plays (tests/fake_cuda), or, where
// ACT_TEST_CARD names libact_cuda.so, a real one. docs/cuda.md says how to run them there.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/paths.h"

namespace act {

inline bool IsRealCard() { return std::getenv("ACT_TEST_CARD") != nullptr; }

// What a real card leaves of them: its order is its own, and nobody counts its accesses.
class NoControls : public fake::Controls {
 public:
  void Seed(uint64_t) override {}
  void WatchAccesses(bool) override {}
  const fake::AccessStatistics& Accesses() override { return none_; }
  Work WorkSoFar() override { return {}; }

 private:
  const fake::AccessStatistics none_{};
};

struct OpenedCard {
  std::unique_ptr<cuda::Toolkit> toolkit;
  fake::Controls* controls = nullptr;  // never null
};

// With the options that the environment has now (tests/fake_cuda/README.md). Throws what stands in the way.
inline OpenedCard OpenTestCard() {
  void* library =
      dlopen(IsRealCard() ? std::getenv("ACT_TEST_CARD") : FakeCudaPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  std::string error, hint;
  const auto open = reinterpret_cast<cuda::OpenToolkit>(dlsym(library, cuda::kOpenToolkit));
  OpenedCard card{.toolkit = std::unique_ptr<cuda::Toolkit>(open(0, &error, &hint))};
  if (!card.toolkit) throw std::runtime_error(error);
  static NoControls no_controls;
  const auto controls = reinterpret_cast<fake::ControlsOf>(dlsym(library, fake::kControlsOf));
  card.controls = controls ? controls(card.toolkit.get()) : &no_controls;
  return card;
}

}  // namespace act
