// Which kernel of its operator's list a site gets. The first that accepts it, unless another one is
// preferred: one that was timed there and is faster on this machine (kernel_tuner.h).
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/executor/kernel.h"

namespace act {

struct KernelChoice {
  struct Candidate {
    std::string kernel;
    double seconds = 0;  // the shortest of its runs; 0: it did not run
    bool operator==(const Candidate&) const = default;
  };

  std::string kernel;  // preferred; empty: the list's order decides
  // The kernels that accept the site, in the list's order. A single one: the others were not timed, or
  // there are none.
  std::vector<Candidate> candidates;

  bool WasTimed() const { return candidates.size() > 1; }
  // Whether the list's order would give another kernel.
  bool Differs() const { return !candidates.empty() && candidates.front().kernel != kernel; }
  bool operator==(const KernelChoice&) const = default;
};

// All that decides how long a kernel takes at a site, as one line: operator, attributes, operand types and
// dims, scratch space, threads. Sites with the same text run equally fast.
std::string SiteText(const KernelSite& site);

// The kernel for the site. Null if the entry refuses it, or needs more workspace than the site has, with the
// reason in *why.
std::unique_ptr<Kernel> CreateKernel(const KernelEntry& entry, const KernelSite& site, std::string* why);

struct TakenKernel {
  std::string name;
  std::unique_ptr<Kernel> kernel;
  std::vector<std::string> refusals;  // of kernels before it in the list: "dnnl.conv: an empty tensor"
};

// The preferred kernel if it accepts the site, else the first of the list that does. A site that no kernel
// accepts is an error that lists every refusal.
llvm::Expected<TakenKernel> TakeKernel(const KernelRegistry& registry, const KernelSite& site,
                                       const std::string& preferred = "");

// A node in errors: "node 'conv1' (Conv)".
std::string PlaceOf(const Node& node);

}  // namespace act
