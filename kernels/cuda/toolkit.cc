#include "kernels/cuda/toolkit.h"

#include <dlfcn.h>

#include <filesystem>

#include "runtime/base/error.h"

namespace act::cuda {

namespace {

// The library beside the program, or where the system looks. `place` is what asks for it.
llvm::Expected<void*> LoadLibrary(const std::string& place, const std::string& file,
                                  const std::string& hint) {
  std::error_code ignored;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / file;
  const bool is_there = std::filesystem::exists(beside);
  void* library = dlopen(is_there ? beside.c_str() : file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return is_there ? MakeError(place, "cannot load " + file + ": " + dlerror(),
                                "docs/cuda.md lists the libraries that it needs")
                    : MakeError(place, "this build has no " + file, hint);
  const auto* version = static_cast<const int*>(dlsym(library, kToolkitVersion));
  if (!version || *version != kCurrentToolkit || !dlsym(library, kOpenToolkit))
    return MakeError(place, file + " belongs to another version of this program", "build both together");
  return library;
}

constexpr char kNvidia[] = "libact_cuda.so";

}  // namespace

llvm::Expected<std::unique_ptr<Toolkit>> LoadToolkit(const std::string& device) {
  const std::string place = "--device=" + device;
  ACT_TRY(void* const library,
          device == "fake"
              ? LoadLibrary(place, "libact_fake_cuda.so", "it is built with the tests: make build")
              : LoadLibrary(place, kNvidia,
                            "build it where CUDA's toolkit is (docs/cuda.md), or run with --device=cpu"));
  const auto open = reinterpret_cast<OpenToolkit>(dlsym(library, kOpenToolkit));
  std::string error, hint;
  std::unique_ptr<Toolkit> toolkit(open(0, &error, &hint));
  if (!toolkit) return MakeError(place, error, hint);
  return toolkit;
}

llvm::Expected<std::unique_ptr<Toolkit>> LoadCard(const std::string& card) {
  const std::string place = "card " + card;
  ACT_TRY(void* const library,
          LoadLibrary(place, kNvidia, "build it where CUDA's toolkit is (docs/cuda.md)"));
  const auto open = reinterpret_cast<OpenCard>(dlsym(library, kOpenCard));
  if (!open)
    return MakeError(place, std::string(kNvidia) + " belongs to another version of this program", "");
  std::string error, hint;
  std::unique_ptr<Toolkit> toolkit(open(card.c_str(), &error, &hint));
  if (!toolkit) return MakeError(place, error, hint);
  return toolkit;
}

}  // namespace act::cuda
