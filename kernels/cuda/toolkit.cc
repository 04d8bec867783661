#include "kernels/cuda/toolkit.h"

#include <dlfcn.h>

#include <filesystem>

#include "runtime/base/error.h"

namespace act::cuda {
namespace {

constexpr char kNvidia[] = "libact_cuda.so", kFake[] = "libact_fake_cuda.so";

// The library's function of that name, which is of type F. `place` is for messages.
template <class F>
llvm::Expected<F> Load(const std::string& file, const char* function, const std::string& place) {
  std::error_code ignored;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / file;
  const bool is_beside = std::filesystem::exists(beside, ignored);
  void* library = dlopen(is_beside ? beside.c_str() : file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library && is_beside)
    return MakeError(place, "cannot load " + file + ": " + dlerror(),
                     "docs/cuda.md lists the libraries that it needs");
  if (!library)
    return MakeError(place, "this build has no " + file,
                     file == kFake ? "it is built with the tests: make build"
                                   : "make cuda builds it (docs/cuda.md); --device=cpu runs everywhere");
  const auto* version = static_cast<const int*>(dlsym(library, kToolkitVersion));
  const auto found = reinterpret_cast<F>(dlsym(library, function));
  if (!version || *version != kCurrentToolkit || !found)
    return MakeError(place, file + " belongs to another version of this program", "build both together");
  return found;
}

llvm::Expected<std::unique_ptr<Toolkit>> Opened(Toolkit* toolkit, const std::string& place,
                                                const std::string& error, const std::string& hint) {
  if (!toolkit) return MakeError(place, error, hint);
  return std::unique_ptr<Toolkit>(toolkit);
}

}  // namespace

llvm::Expected<std::unique_ptr<Toolkit>> LoadToolkit(const std::string& device) {
  const std::string place = "--device=" + device;
  ACT_TRY(const OpenToolkit open, Load<OpenToolkit>(device == "fake" ? kFake : kNvidia, kOpenToolkit, place));
  std::string error, hint;
  Toolkit* toolkit = open(0, &error, &hint);
  return Opened(toolkit, place, error, hint);
}

llvm::Expected<std::unique_ptr<Toolkit>> LoadCard(const std::string& card) {
  const std::string place = "--target=cuda:" + card;
  ACT_TRY(const OpenCard open, Load<OpenCard>(kNvidia, kOpenCard, place));
  std::string error, hint;
  Toolkit* toolkit = open(card.c_str(), &error, &hint);
  return Opened(toolkit, place, error, hint);
}

}  // namespace act::cuda
