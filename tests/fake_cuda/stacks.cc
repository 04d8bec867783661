#include "tests/fake_cuda/stacks.h"

#include <sys/mman.h>

#include <new>

namespace act::fake {
namespace {

constexpr size_t kGuardBytes = 64 << 10;  // at least a page, on every machine
constexpr size_t kStackBytes = 384 << 10;

// `bytes` bytes with a guard before and after them.
unsigned char* Reserve(size_t bytes) {
  void* all =
      mmap(nullptr, bytes + 2 * kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
  unsigned char* begin = static_cast<unsigned char*>(all) + kGuardBytes;
  if (mprotect(begin, bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  return begin;
}
void Release(unsigned char* begin, size_t bytes) { munmap(begin - kGuardBytes, bytes + 2 * kGuardBytes); }

}  // namespace

boost::context::stack_context FiberStacks::allocate() {
  boost::context::stack_context stack;
  stack.size = kStackBytes - offset_;
  unsigned char* lowest = Reserve(kStackBytes);
  stack.sp = lowest + stack.size;
  *bounds_ = {lowest, stack.size};
  return stack;
}

void FiberStacks::deallocate(boost::context::stack_context& stack) {
  unsigned char* lowest = static_cast<unsigned char*>(stack.sp) - stack.size;
  ForgetStack(lowest, kStackBytes);
  Release(lowest, kStackBytes);
}

SharedMemory::SharedMemory() : begin_(Reserve(kBytes)) {}
SharedMemory::~SharedMemory() { Release(begin_, kBytes); }

}  // namespace act::fake
