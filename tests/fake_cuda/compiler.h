// Compiles device code for the processor, with the host's compiler.
#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>

#include "kernels/cuda/libraries.h"

namespace act::fake {

class HostCompiler : public cuda::KernelCompiler {
 public:
  // Images are kept in `cache_folder`.
  explicit HostCompiler(std::filesystem::path cache_folder) : cache_folder_(std::move(cache_folder)) {}

  std::string Key() const override;
  std::string Name() const override { return ACT_CXX " " ACT_CXX_VERSION; }
  // Compiles several sources at a time, as one translation unit.
  void Prepare(const std::vector<const cuda::KernelSource*>& sources,
               const cuda::DeviceHeaders& headers) override;
  cuda::Status Compile(const cuda::KernelSource& source, const cuda::DeviceHeaders& headers,
                       std::vector<std::byte>* image, std::string* log) override;
  // Calls of Compile, those among them whose image was kept.
  int64_t compiled() const { return compiled_; }

 private:
  using Sources = std::vector<const cuda::KernelSource*>;

  // The folder with the headers, and act_machine.h compiled before.
  std::filesystem::path Include(const cuda::DeviceHeaders& headers);
  // Of a source's image and log, without their endings.
  std::filesystem::path EntryOf(const cuda::KernelSource& source) const;
  // Makes the entries of all sources, each of which gets the image of the whole unit. Otherwise returns the
  // compiler's messages. A unit of several fails for warnings too.
  cuda::Status Make(const Sources& sources);

  const std::filesystem::path cache_folder_;
  std::mutex including_;
  std::filesystem::path include_;  // empty until it is there
  std::atomic<int64_t> compiled_ = 0;
};

}  // namespace act::fake
