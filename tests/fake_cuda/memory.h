// The memory of the fake: device memory, which the host cannot touch, and pinned memory, which it cannot
// touch while a copy is pending.
//
// All of it is one file in memory, mapped twice. The first mapping gives the addresses that everybody
// knows. There, pages of the device are never accessible, and those of pinned memory are while no copy
// holds them. The second one, of which only the fake knows, is always accessible. So the fake need not
// open and close pages around each operation, and a kernel that bypasses Load and Store dies, too.
// Addresses are never used again: whoever keeps one after Free is found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace act::fake {

enum class Hold : uint8_t {
  kRead,   // a copy from here is pending: the host may read
  kWrite,  // a copy to here is pending: the host may do nothing
};

// A page of pinned memory.
struct Page {
  int reads = 0, writes = 0;  // pending copies from it and to it
  int protection = 0;         // of mprotect
};

struct Allocation {
  std::byte* begin = nullptr;
  int64_t bytes = 0;
  bool pinned = false;
  std::vector<Page> pages;  // if it is pinned
  int holds = 0;            // copies that are pending
};

class Memory {
 public:
  // `card_bytes`: what device memory there is.
  explicit Memory(int64_t card_bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Aligned to 256 bytes, and filled with 0xff, which is NaN in every float. Null if the card is full.
  std::byte* Allocate(int64_t bytes, bool pinned);
  // False if nothing begins there.
  bool Free(std::byte* begin, bool pinned);
  int64_t FreeBytes() const { return card_bytes_ - used_; }
  // Another process takes device memory.
  void Steal(int64_t bytes) { used_ += bytes; }

  // The allocation that holds `address`, or null.
  const Allocation* Find(const void* address) const;
  // What is wrong with an access to the `bytes` bytes at `address`, or an empty string.
  std::string Check(const void* address, int64_t bytes) const;
  // The fake's own address of the same byte.
  std::byte* Alias(const void* address) const { return const_cast<std::byte*>(At(address)) + to_alias_; }
  int64_t to_alias() const { return to_alias_; }

  // From HoldPages to ReleasePages, the host cannot write (or touch) the whole pages of this range of
  // pinned memory.
  void HoldPages(const std::byte* from, int64_t bytes, Hold hold) { Count(from, bytes, hold, 1); }
  void ReleasePages(const std::byte* from, int64_t bytes, Hold hold) { Count(from, bytes, hold, -1); }
  // For a function of the host that runs in the order of a stream: the host may touch everything meanwhile.
  void SuspendHolds(bool suspended);

 private:
  static const std::byte* At(const void* address) { return static_cast<const std::byte*>(address); }
  static std::byte* FirstPage(const Allocation& a);
  void Count(const std::byte* from, int64_t bytes, Hold hold, int change);
  // Gives pages first .. last - 1 the protection that pending copies ask for.
  void Protect(Allocation& a, size_t first, size_t last);

  const int64_t card_bytes_;
  int64_t used_ = 0;
  std::byte* known_ = nullptr;  // the addresses of allocations
  int64_t to_alias_ = 0;
  std::byte* next_ = nullptr;
  int file_ = -1;
  std::map<const std::byte*, Allocation> allocations_;  // by begin
  bool suspended_ = false;
};

}  // namespace act::fake
