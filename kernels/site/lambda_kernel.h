// A kernel that is one function. Most kernels have no state but the shapes for which they
// were made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/executor/kernel.h"

namespace act {

template <class F>
class LambdaKernel final : public Kernel {
 public:
  LambdaKernel(F run, int64_t workspace_bytes, std::string describe)
      : run_(std::move(run)), workspace_bytes_(workspace_bytes), describe_(std::move(describe)) {}
  std::string Run(const KernelArgs& args) override { return run_(args); }
  int64_t WorkspaceBytes() const override { return workspace_bytes_; }
  std::string Describe() const override { return describe_; }

 private:
  F run_;
  int64_t workspace_bytes_;
  std::string describe_;
};

// run: std::string(const KernelArgs&), which returns an error or "".
template <class F>
std::unique_ptr<Kernel> MakeKernel(F run, int64_t workspace_bytes = 0, std::string describe = "") {
  return std::make_unique<LambdaKernel<F>>(std::move(run), workspace_bytes, std::move(describe));
}

// "needs 4096 bytes of workspace, 1024 are given": a reason to refuse a site.
inline std::string TooLittleWorkspace(int64_t needed_bytes, int64_t given_bytes) {
  return "needs " + std::to_string(needed_bytes) + " bytes of workspace, " + std::to_string(given_bytes) +
         " are given";
}

// What a KernelEntry returns for a site that it does not accept.
inline std::unique_ptr<Kernel> Refuse(std::string* why, std::string reason) {
  if (why) *why = std::move(reason);
  return nullptr;
}

}  // namespace act
