// Compiles device code for the processor, with the host's compiler.
#pragma once

#include <atomic>

#include "kernels/cuda/libraries.h"

namespace act::fake {

class HostCompiler : public cuda::KernelCompiler {
 public:
  // Images are kept in `cache_folder`.
  explicit HostCompiler(std::string cache_folder) : cache_folder_(std::move(cache_folder)) {}

  std::string Key() const override;
  std::string Name() const override { return ACT_CXX " " ACT_CXX_VERSION; }
  cuda::Status Compile(const cuda::KernelSource& source,
                       const std::vector<std::pair<std::string, std::string>>& headers,
                       std::vector<std::byte>* image, std::string* log) override;
  // Calls of Compile, those among them whose image was kept.
  int64_t compiled() const { return compiled_; }

 private:
  const std::string cache_folder_;
  std::atomic<int64_t> compiled_ = 0;
};

}  // namespace act::fake
