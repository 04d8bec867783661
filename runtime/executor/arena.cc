#include "runtime/executor/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/base/dim.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"

namespace act {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;

size_t RoundUp(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

}  // namespace

llvm::Expected<std::unique_ptr<Arena>> Arena::Allocate(int64_t bytes) {
  if (bytes < 0 || bytes >= kTooLarge)
    return MakeError("arena", "a size of " + std::to_string(bytes) + " bytes");
  // [slack to alignment][guard][arena, rounded up to pages][guard]
  const size_t inside = RoundUp(static_cast<size_t>(bytes), kPage);
  const size_t mapping_bytes = kHugePage + kPage + inside + kPage;
  void* mapping = mmap(nullptr, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return MakeError("arena", "cannot reserve " + FormatSize(bytes) + ": " + std::strerror(errno),
                     "run with a smaller --batch, or compile at a higher level");
  }
  const uintptr_t first = reinterpret_cast<uintptr_t>(mapping) + kPage;
  std::byte* base = reinterpret_cast<std::byte*>(RoundUp(first, kHugePage));
  std::unique_ptr<Arena> arena(new Arena(mapping, mapping_bytes, base, bytes));
  if (inside > 0 && mprotect(base, inside, PROT_READ | PROT_WRITE) != 0) {
    return MakeError("arena", "cannot map " + FormatSize(bytes) + ": " + std::strerror(errno));
  }
  // only advice: machines without huge pages work too
  if (inside > 0) madvise(base, inside, MADV_HUGEPAGE);
  return arena;
}

Arena::~Arena() { munmap(mapping_, mapping_bytes_); }

llvm::Expected<std::byte*> Arena::HandOut(int64_t offset, int64_t bytes) {
  if (offset < 0 || bytes < 0 || offset > bytes_ || bytes > bytes_ - offset) {
    return MakeError("arena", "bytes " + std::to_string(offset) + " to " +
                                  std::to_string(SaturatingAdd(offset, bytes)) + " lie outside of " +
                                  std::to_string(bytes_));
  }
  if (bytes > 0) high_water_bytes_ = std::max(high_water_bytes_, offset + bytes);
  return base_ + offset;
}

}  // namespace act
