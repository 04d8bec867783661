// Kernels that the host's compiler made, in this process.
#pragma once

#include <map>
#include <span>
#include <string>

#include "tests/fake_cuda/block.h"

namespace act::fake {

class Image {
 public:
  // An image of its own, even if the same bytes are loaded twice. On failure, *error says why.
  Image(std::span<const std::byte> bytes, std::string* error);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  // Null if it has no such kernel. The result lives as long as the image.
  const LoadedKernel* Find(const std::string& name);

 private:
  int file_ = -1;
  void* library_ = nullptr;
  std::map<std::string, LoadedKernel> kernels_;
};

}  // namespace act::fake
