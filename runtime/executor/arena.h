// The allocations of a run, one for each memory. Every tensor and every workspace is a range of one
// of them.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace act {

class Arena {
 public:
  // Reserves `bytes`, aligned to a huge page, with an inaccessible page on both sides: a kernel
  // that runs over either end stops there. The machine provides memory page by page at first touch.
  static llvm::Expected<std::unique_ptr<Arena>> Allocate(int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The range [offset, offset + bytes). Raises the high-water mark. It is an error if the range
  // leaves the arena.
  llvm::Expected<std::byte*> HandOut(int64_t offset, int64_t bytes);

  // The highest byte that was ever handed out, plus one. Measured here, not taken from the plan.
  int64_t high_water_bytes() const { return high_water_bytes_; }
  int64_t bytes() const { return bytes_; }
  std::byte* base() const { return base_; }

 private:
  Arena(void* mapping, size_t mapping_bytes, std::byte* base, int64_t bytes)
      : mapping_(mapping), mapping_bytes_(mapping_bytes), base_(base), bytes_(bytes) {}

  void* mapping_;
  size_t mapping_bytes_;
  std::byte* base_;
  int64_t bytes_;
  int64_t high_water_bytes_ = 0;
};

}  // namespace act
