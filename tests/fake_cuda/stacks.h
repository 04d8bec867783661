// Memory that is reserved apart from everything else, with pages around it that nobody may touch.
#pragma once

#include <boost/context/stack_context.hpp>
#include <cstddef>

#include "tests/fake_cuda/sanitized_stacks.h"

namespace act::fake {

// The stack of one of a block's fibers: a stack allocator as Boost.Context wants it.
class FiberStacks {
 public:
  // The fiber's number spreads stacks over 126 KiB, the lines of a way of a second-level cache of 1 MiB: at the same
  // place of their pages, all of them would compete for a few. The bounds of the stack are written to `bounds`.
  FiberStacks(size_t number, StackBounds* bounds) : offset_(number % 168 * 768), bounds_(bounds) {}
  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack);

 private:
  size_t offset_;
  StackBounds* bounds_;
};

// A block's dynamic shared memory.
class SharedMemory {
 public:
  static constexpr size_t kBytes = size_t{1} << 20;

  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // The last `bytes` bytes, rounded up to 16: what comes after them is not accessible.
  unsigned char* End(int64_t bytes) const { return begin_ + kBytes - (bytes + 15) / 16 * 16; }

 private:
  unsigned char* begin_;
};

}  // namespace act::fake
