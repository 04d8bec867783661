#include "runtime/executor/guarded_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/base/dim.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"

namespace act {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;

size_t RoundUp(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

}  // namespace

llvm::Expected<GuardedMemory> GuardedMemory::Allocate(int64_t bytes) {
  if (bytes < 0 || bytes >= kTooLarge)
    return MakeError("arena", "a size of " + std::to_string(bytes) + " bytes");
  // [slack to alignment][guard][memory, rounded up to pages][guard]
  const size_t inside = RoundUp(static_cast<size_t>(bytes), kPage);
  const size_t mapping_bytes = kHugePage + kPage + inside + kPage;
  void* mapping = mmap(nullptr, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return MakeError("arena", "cannot reserve " + FormatSize(bytes) + ": " + std::strerror(errno),
                     "run with a smaller --batch, or compile at a higher level");
  }
  std::byte* const first = static_cast<std::byte*>(mapping) + kPage;
  const auto address = reinterpret_cast<uintptr_t>(first);
  GuardedMemory memory(mapping, mapping_bytes, first + (RoundUp(address, kHugePage) - address), bytes);
  if (inside > 0 && mprotect(memory.base_, inside, PROT_READ | PROT_WRITE) != 0)
    return MakeError("arena", "cannot map " + FormatSize(bytes) + ": " + std::strerror(errno));
  if (inside > 0)
    madvise(memory.base_, inside, MADV_HUGEPAGE);  // advice: a machine without huge pages runs too
  return memory;
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      base_(other.base_),
      bytes_(other.bytes_) {}

GuardedMemory::~GuardedMemory() {
  if (mapping_) munmap(mapping_, mapping_bytes_);
}

void GuardedMemory::SetAccessible(bool accessible) const {
  const size_t inside = RoundUp(static_cast<size_t>(bytes_), kPage);
  if (inside > 0) mprotect(base_, inside, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

}  // namespace act
