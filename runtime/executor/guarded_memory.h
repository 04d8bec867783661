// Pages of the host's memory between two inaccessible pages.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>

namespace act {

class GuardedMemory {
 public:
  // Reserves `bytes`, aligned to a huge page, with an inaccessible page on both sides: a kernel
  // that runs over either end stops there. The machine provides memory page by page at first touch.
  static llvm::Expected<GuardedMemory> Allocate(int64_t bytes);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&&) = delete;

  std::byte* base() const { return base_; }
  int64_t bytes() const { return bytes_; }
  // Whether the pages can be read and written. They can after Allocate.
  void SetAccessible(bool accessible) const;

 private:
  GuardedMemory(void* mapping, size_t mapping_bytes, std::byte* base, int64_t bytes)
      : mapping_(mapping), mapping_bytes_(mapping_bytes), base_(base), bytes_(bytes) {}

  void* mapping_;
  size_t mapping_bytes_;
  std::byte* base_;
  int64_t bytes_;
};

}  // namespace act
