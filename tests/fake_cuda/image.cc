#include "tests/fake_cuda/image.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace act::fake {

Image::Image(std::span<const std::byte> bytes, std::string* error) {
  // A file of its own in memory, open as long as the library: the loader takes files of one name, or one
  // inode, for the same library.
  file_ = memfd_create("act_fake_kernel", MFD_CLOEXEC);
  if (file_ < 0 || write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    *error = "no memory for an image";
  } else {
    library_ = dlopen(("/proc/self/fd/" + std::to_string(file_)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) *error = dlerror();
  }
}

Image::~Image() {
  if (library_) dlclose(library_);
  if (file_ >= 0) close(file_);
}

const LoadedKernel* Image::Find(const std::string& name) {
  const auto* entry =
      static_cast<const KernelEntryPoint*>(dlsym(library_, ("act_fake_kernel_" + name).c_str()));
  auto* machine = static_cast<Machine**>(dlsym(library_, "act_fake_machine"));
  if (!entry || !machine) return nullptr;
  return &kernels_.try_emplace(name, LoadedKernel{name, entry, machine}).first->second;
}

}  // namespace act::fake
