#include "tests/fake_cuda/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace act::fake {
namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kAddresses = int64_t{1} << 38;  // of which a run uses each once

int64_t PageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}
int64_t RoundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

void Require(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::abort();
}

}  // namespace

Memory::Memory(int64_t card_bytes) : card_bytes_(card_bytes) {
  file_ = memfd_create("act_fake_cuda", MFD_CLOEXEC);
  Require(file_ >= 0 && ftruncate(file_, kAddresses) == 0, "the fake's memory");
  void* known = mmap(nullptr, kAddresses, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  void* alias = mmap(nullptr, kAddresses, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  Require(known != MAP_FAILED && alias != MAP_FAILED, "the fake's memory");
  known_ = static_cast<std::byte*>(known);
  to_alias_ = static_cast<std::byte*>(alias) - known_;
  next_ = known_;
}

Memory::~Memory() {
  munmap(known_, kAddresses);
  munmap(known_ + to_alias_, kAddresses);
  close(file_);
}

std::byte* Memory::FirstPage(const Allocation& a) {
  return a.begin - reinterpret_cast<uintptr_t>(a.begin) % static_cast<uintptr_t>(PageBytes());
}

std::byte* Memory::Allocate(int64_t bytes, bool pinned) {
  if (!pinned && bytes > FreeBytes()) return nullptr;
  // The end of an allocation is the end of a page, and a page that nobody may touch follows.
  const int64_t used = RoundUp(std::max<int64_t>(bytes, 1), kAlignment);
  const int64_t pages = RoundUp(used, PageBytes());
  if (pages + PageBytes() > known_ + kAddresses - next_) return nullptr;
  std::byte* begin = next_ + pages - used;
  next_ += pages + PageBytes();
  std::memset(Alias(begin), 0xff, static_cast<size_t>(used));
  Allocation& a = allocations_[begin];
  a.begin = begin;
  a.bytes = bytes;
  a.pinned = pinned;
  if (pinned) {
    a.pages.assign(static_cast<size_t>(pages / PageBytes()), {});
    Protect(a, 0, a.pages.size());
  } else {
    used_ += bytes;
  }
  return begin;
}

bool Memory::Free(std::byte* begin, bool pinned) {
  const auto it = allocations_.find(begin);
  if (it == allocations_.end() || it->second.pinned != pinned) return false;
  std::byte* first = FirstPage(it->second);
  const int64_t pages = RoundUp(std::max<int64_t>(it->second.bytes, 1), PageBytes());
  if (pinned) {
    Require(mprotect(first, static_cast<size_t>(pages), PROT_NONE) == 0, "mprotect");
  } else {
    used_ -= it->second.bytes;
  }
  Require(fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first - known_, pages) == 0,
          "fallocate");
  allocations_.erase(it);
  return true;
}

const Allocation* Memory::Find(const void* address) const {
  auto it = allocations_.upper_bound(At(address));
  if (it == allocations_.begin()) return nullptr;
  const Allocation& a = std::prev(it)->second;
  return At(address) < a.begin + std::max<int64_t>(a.bytes, 1) ? &a : nullptr;
}

std::string Memory::Check(const void* address, int64_t bytes) const {
  const std::byte* at = At(address);
  auto it = allocations_.upper_bound(at);
  if (at < known_ || at >= known_ + kAddresses) return "not memory of the device, nor pinned";
  if (it == allocations_.begin()) return "freed, or never allocated";
  const Allocation& a = std::prev(it)->second;
  const int64_t from = at - a.begin;
  if (from >= RoundUp(a.bytes, PageBytes()) + PageBytes()) return "freed, or never allocated";
  if (bytes > a.bytes - from) {
    return "byte " + std::to_string(from) + " of an allocation of " + std::to_string(a.bytes) + " bytes";
  }
  return "";
}

void Memory::Count(const std::byte* from, int64_t bytes, Hold hold, int change) {
  const auto it = allocations_.upper_bound(from);
  if (bytes == 0 || it == allocations_.begin()) return;
  Allocation& a = std::prev(it)->second;
  const int64_t begin = from - a.begin, end = begin + bytes;
  if (end > a.bytes) return;  // freed meanwhile
  // The allocation's first and last page hold nothing else. Others count if they are in the range as a whole.
  const int64_t before = a.begin - FirstPage(a);
  const int64_t first = begin == 0 ? 0 : RoundUp(before + begin, PageBytes()) / PageBytes();
  const int64_t last = end == a.bytes ? static_cast<int64_t>(a.pages.size()) : (before + end) / PageBytes();
  for (int64_t i = first; i < last; ++i) {
    Page& page = a.pages[static_cast<size_t>(i)];
    (hold == Hold::kRead ? page.reads : page.writes) += change;
  }
  a.holds += change;
  if (first < last) Protect(a, static_cast<size_t>(first), static_cast<size_t>(last));
}

void Memory::Protect(Allocation& a, size_t first, size_t last) {
  const auto wanted = [this](const Page& page) {
    if (suspended_) return PROT_READ | PROT_WRITE;
    return page.writes > 0 ? PROT_NONE : page.reads > 0 ? PROT_READ : PROT_READ | PROT_WRITE;
  };
  for (size_t i = first; i < last; ++i) {
    const int protection = wanted(a.pages[i]);
    if (protection == a.pages[i].protection) continue;
    size_t end = i;
    for (; end < last && wanted(a.pages[end]) == protection; ++end) a.pages[end].protection = protection;
    const auto page = static_cast<size_t>(PageBytes());
    Require(mprotect(FirstPage(a) + i * page, (end - i) * page, protection) == 0, "mprotect");
    i = end - 1;
  }
}

void Memory::SuspendHolds(bool suspended) {
  suspended_ = suspended;
  for (auto& [begin, a] : allocations_)
    if (a.holds > 0) Protect(a, 0, a.pages.size());
}

}  // namespace act::fake
