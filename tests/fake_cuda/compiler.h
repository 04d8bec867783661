// Compiles device code for the processor, with the host's compiler.
#pragma once

#include "kernels/cuda/libraries.h"

namespace act::fake {

class HostCompiler : public cuda::KernelCompiler {
 public:
  // Images are kept in `cache_folder`.
  explicit HostCompiler(std::string cache_folder) : cache_folder_(std::move(cache_folder)) {}

  std::string Key() const override;
  cuda::Status Compile(const cuda::KernelSource& source,
                       const std::vector<std::pair<std::string, std::string>>& headers,
                       std::vector<std::byte>* image, std::string* log) override;

 private:
  const std::string cache_folder_;
};

}  // namespace act::fake
