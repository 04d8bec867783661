#include "kernels/cuda/toolkit.h"

#include <dlfcn.h>

#include <filesystem>

#include "runtime/base/error.h"

namespace act::cuda {

llvm::Expected<std::unique_ptr<Toolkit>> LoadToolkit(const std::string& device) {
  const std::string place = "--device=" + device;
  const std::string file = device == "fake" ? "libact_fake_cuda.so" : "libact_cuda.so";
  std::error_code ignored;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / file;
  void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library && !std::filesystem::exists(beside)) library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const bool is_there = std::filesystem::exists(beside);
    return MakeError(place, is_there ? "cannot load " + file + ": " + dlerror() : "this build has no " + file,
                     device == "fake" ? "it is built with the tests: make build"
                     : is_there
                         ? "docs/cuda.md lists the libraries that it needs"
                         : "build it where CUDA's toolkit is (docs/cuda.md), or run with --device=cpu");
  }
  const auto* version = static_cast<const int*>(dlsym(library, kToolkitVersion));
  const auto open = reinterpret_cast<OpenToolkit>(dlsym(library, kOpenToolkit));
  if (!version || *version != kCurrentToolkit || !open)
    return MakeError(place, file + " belongs to another version of this program", "build both together");
  std::string error, hint;
  std::unique_ptr<Toolkit> toolkit(open(0, &error, &hint));
  if (!toolkit) return MakeError(place, error, hint);
  return toolkit;
}

}  // namespace act::cuda
