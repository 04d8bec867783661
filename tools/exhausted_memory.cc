#include "tools/exhausted_memory.h"

#include <dlfcn.h>
#include <llvm/Support/ErrorHandling.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "runtime/base/file.h"

namespace act {
namespace {

constexpr int kFailed = 1;

// Made while there is memory. Whoever asks for memory has no argument of ours.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
const char* g_tool = "";
char g_out_of_memory[256] = "";
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

// Writes to standard error without memory. What it does not take is lost.
void WriteToStandardError(const char* text) {
  for (size_t bytes = std::strlen(text); bytes > 0;) {
    const ssize_t written = ::write(STDERR_FILENO, text, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    bytes -= static_cast<size_t>(written);
  }
}

// Ends the process here, in whichever thread, and throws nothing: an exception cannot leave a parallel
// region, a destructor, or a library that was built without exceptions.
[[noreturn]] void EndWith(const char* message) {
  static std::atomic_flag ends;
  while (ends.test_and_set()) ::pause();  // another thread is at it
  RemoveTemporaryFiles();
  WriteToStandardError(message);
  ::_exit(kFailed);
}

[[noreturn]] void EndOutOfMemory() { EndWith(g_out_of_memory); }

[[noreturn]] void EndAtFatalError(void*, const char* reason, bool) {
  char message[512];
  std::snprintf(message, sizeof message, "%s: error: internal: %s\n", g_tool, reason);
  EndWith(message);
}

// The stack grows as it is used, and where it cannot, the process ends without a word. So its pages are taken at
// the start, after a request for as much memory has told whether there is any. Fused loops take 384 KiB.
constexpr size_t kStackBytes = size_t{1} << 20;

[[gnu::noinline]] void TakeStack() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur < 2 * kStackBytes) return;
  constexpr size_t kBytes = kStackBytes + kStackBytes / 4;  // and what the system adds
  void* const room = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) EndOutOfMemory();
  ::munmap(room, kBytes);
  constexpr size_t kPage = 4096;
  [[maybe_unused]] volatile char stack[kStackBytes];
  for (size_t i = kStackBytes; i >= kPage; i -= kPage) stack[i - 1] = 0;
}

}  // namespace

void HandleExhaustedMemory(const char* tool) {
  g_tool = tool;
  std::snprintf(g_out_of_memory, sizeof g_out_of_memory,
                "%s: error: out of memory: the system gives no more\n"
                "hint: the limit of the process (ulimit -v) or of its container may be too low\n",
                tool);
  std::set_new_handler(EndOutOfMemory);
  llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { EndOutOfMemory(); });
  llvm::install_fatal_error_handler(EndAtFatalError);
  TakeStack();
}

}  // namespace act

// oneDNN takes memory from these two functions, and where they give none, some of its constructors write
// through the null pointer. So the process ends before they can. Sanitizers have functions of their own,
// which do not return without memory.
#ifndef ACT_SANITIZER
extern "C" int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  using Function = int (*)(void**, size_t, size_t);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "posix_memalign"));
  const int error_number = next(memory, alignment, bytes);
  if (error_number == ENOMEM && act::g_out_of_memory[0] != '\0') act::EndOutOfMemory();
  return error_number;
}

extern "C" void* malloc(size_t bytes) noexcept {
  using Function = void* (*)(size_t);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "malloc"));
  void* const memory = next(bytes);
  if (!memory && act::g_out_of_memory[0] != '\0') act::EndOutOfMemory();
  return memory;
}
#endif
