// What the address sanitizer must be told of fibers: on which stack the program runs, and which stacks are
// gone. It keeps marks on the variables of each stack, and would find those of an earlier one. Other builds
// tell nobody.
#pragma once

#include <cstddef>

#include "runtime/base/sanitizer.h"

#ifdef ACT_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace act::fake {

struct StackBounds {
  const void* lowest = nullptr;
  size_t bytes = 0;
};

#ifdef ACT_ADDRESS_SANITIZER
// Before a switch to another stack. Returns what belongs to the stack that is left, for LeftStack.
inline void* EnterStack(const StackBounds& stack) {
  void* left = nullptr;
  __sanitizer_start_switch_fiber(&left, stack.lowest, stack.bytes);
  return left;
}
// After a switch, on the stack that was entered. `own` is what EnterStack returned when this one was left, or
// null if it is new. Returns the bounds of the stack from which the switch came.
inline StackBounds LeftStack(void* own) {
  StackBounds from;
  __sanitizer_finish_switch_fiber(own, &from.lowest, &from.bytes);
  return from;
}
// Memory that is no stack any more has no marks.
inline void ForgetStack(const void* lowest, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(lowest, bytes); }
// Nobody comes back to this stack, and what its frames own is no leak.
inline void KeepStack(const StackBounds& stack) { __lsan_register_root_region(stack.lowest, stack.bytes); }
#else
inline void* EnterStack(const StackBounds&) { return nullptr; }
inline StackBounds LeftStack(void*) { return {}; }
inline void ForgetStack(const void*, size_t) {}
inline void KeepStack(const StackBounds&) {}
#endif

}  // namespace act::fake
