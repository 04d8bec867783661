// Device code to images, by NVRTC: no card and no driver is needed.
#pragma once

#include "kernels/cuda/libraries.h"

namespace act::cuda {

class NvrtcCompiler : public KernelCompiler {
 public:
  explicit NvrtcCompiler(int compute_capability);
  std::string Key() const override;
  std::string Name() const override;
  // The image is a cubin, or PTX if NVRTC is older than the card.
  Status Compile(const KernelSource& source, const DeviceHeaders& headers, std::vector<std::byte>* image,
                 std::string* log) override;

 private:
  Status CompileFor(int resident_threads, const KernelSource& source, const DeviceHeaders& headers,
                    std::vector<std::byte>* image, std::string* log);
  bool makes_cubin() const { return architecture_.starts_with("sm_"); }

  std::string architecture_;  // "sm_90a" for a cubin, "compute_120" for PTX
};

}  // namespace act::cuda
