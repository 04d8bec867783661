// What actc --aot makes ahead of a run, for one card: code of its kernels, and engines of its convolutions.
// Plans carry it; a backend that finds in it what it needs neither compiles nor searches.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

struct PreparedKernel {
  std::string key;   // of all that the code depends on; its backend makes it
  std::string name;  // of the kernel
  HostTensor image;
};

// A library's choice for one convolution.
struct PreparedEngine {
  std::string problem;  // and the bound of its workspace: what the choice is for
  std::string engine;   // its name; without a plan the reason why there is none
  int64_t workspace_bytes = 0;
  HostTensor plan;  // as the library writes it. No bytes: it has no engine for the problem
};

struct Prepared {
  std::string card;      // "NVIDIA H200"
  std::string compiler;  // "NVRTC 13.0 for sm_90a"
  std::string library;   // what engines depend on besides the problem: version and kind of card
  int64_t batch = 0;     // of the engines; code serves any batch size
  std::vector<PreparedKernel> kernels;  // by key, ascending
  std::vector<PreparedEngine> engines;  // by problem, ascending

  // Null if there is none.
  const PreparedKernel* FindKernel(const std::string& key) const;
  const PreparedEngine* FindEngine(const std::string& problem) const;
  // Of all images and plans.
  int64_t Bytes() const;
};

// Order, sizes and texts. What the bytes mean, their compiler and library alone know.
llvm::Error CheckPrepared(const Prepared& prepared);

}  // namespace act
