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

std::byte* Memory::Allocate(int64_t bytes, bool pinned) {
  if (!pinned && bytes > FreeBytes()) return nullptr;
  // The end of an allocation is the end of a page, and a page that nobody may touch follows.
  const int64_t used = RoundUp(std::max<int64_t>(bytes, 1), kAlignment);
  const int64_t pages = RoundUp(used, PageBytes());
  if (pages + PageBytes() > known_ + kAddresses - next_) return nullptr;
  std::byte* begin = next_ + pages - used;
  next_ += pages + PageBytes();
  std::memset(Alias(begin), 0xff, static_cast<size_t>(used));
  if (pinned) {
    Require(mprotect(begin + used - pages, static_cast<size_t>(pages), PROT_READ | PROT_WRITE) == 0,
            "mprotect");
  } else {
    used_ += bytes;
  }
  allocations_[begin] = {begin, bytes, pinned};
  return begin;
}

bool Memory::Free(std::byte* begin, bool pinned) {
  const auto it = allocations_.find(begin);
  if (it == allocations_.end() || it->second.pinned != pinned) return false;
  const int64_t used = RoundUp(std::max<int64_t>(it->second.bytes, 1), kAlignment);
  const int64_t pages = RoundUp(used, PageBytes());
  std::byte* first = begin + used - pages;
  if (pinned) {
    Require(mprotect(first, static_cast<size_t>(pages), PROT_NONE) == 0, "mprotect");
  } else {
    used_ -= it->second.bytes;
  }
  Require(fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first - known_, pages) == 0,
          "fallocate");
  std::erase_if(held_, [&](const Held& h) { return h.allocation == begin; });
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

Memory::Held Memory::PagesOf(const std::byte* from, int64_t bytes, Hold hold) const {
  const Allocation* a = Find(from);
  const auto page = static_cast<uintptr_t>(PageBytes());
  auto first = reinterpret_cast<uintptr_t>(from), last = first + static_cast<uintptr_t>(bytes);
  // An allocation's first and last page hold nothing else.
  first = a && from == a->begin ? first / page * page : (first + page - 1) / page * page;
  last = a && from + bytes == a->begin + a->bytes ? (last + page - 1) / page * page : last / page * page;
  return {a ? a->begin : nullptr, reinterpret_cast<std::byte*>(first),
          reinterpret_cast<std::byte*>(std::max(first, last)), hold};
}

void Memory::Protect(std::byte* from, std::byte* to) {
  if (from == to) return;
  Require(mprotect(from, static_cast<size_t>(to - from), PROT_READ | PROT_WRITE) == 0, "mprotect");
  for (const Hold hold : {Hold::kRead, Hold::kWrite})  // the stricter one last
    for (const Held& h : held_) {
      if (h.hold != hold || h.to <= from || to <= h.from) continue;
      const int protection = hold == Hold::kRead ? PROT_READ : PROT_NONE;
      Require(mprotect(h.from, static_cast<size_t>(h.to - h.from), protection) == 0, "mprotect");
    }
}

void Memory::HoldPages(const std::byte* from, int64_t bytes, Hold hold) {
  held_.push_back(PagesOf(from, bytes, hold));
  const Held pages = held_.back();
  Protect(pages.from, pages.to);
}

void Memory::ReleasePages(const std::byte* from, int64_t bytes, Hold hold) {
  const auto it = std::find(held_.begin(), held_.end(), PagesOf(from, bytes, hold));
  if (it == held_.end()) return;  // freed meanwhile
  const Held pages = *it;
  held_.erase(it);
  Protect(pages.from, pages.to);
}

void Memory::SuspendHolds() {
  suspended_.swap(held_);
  for (const Held& h : suspended_) Protect(h.from, h.to);
}

void Memory::ResumeHolds() {
  held_.swap(suspended_);
  for (const Held& h : held_) Protect(h.from, h.to);
}

}  // namespace act::fake
