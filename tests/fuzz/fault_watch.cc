#include "tests/fuzz/fault_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/fuzz_target.h"

namespace act::fuzz {
namespace {

char input_path[4096];  // of the handler, which may not allocate

void Print(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) _exit(3);
}

const char* NameOf(int signal) {
  switch (signal) {
    case SIGPROF:
      return "an input took more seconds of the processor than it may";
    case SIGALRM:
      return "an input waited for 2 minutes";
    case SIGSEGV:
      return "a segmentation fault";
    case SIGFPE:
      return "an arithmetic fault";
    case SIGBUS:
      return "a bus error";
    case SIGILL:
      return "an illegal instruction";
    default:
      return "an abort";
  }
}

// Of the processor: a busy machine is no fault. A wait without end takes no time of the processor.
void SetClocks(int processor_seconds, unsigned int wait_seconds) {
  const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = processor_seconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
  alarm(wait_seconds);
}

// The default action of the signal follows: a core where they are wanted, and the signal's exit status.
void OnFault(int signal) {
  Print("fault: ");
  Print(NameOf(signal));
  Print("; the input is ");
  Print(input_path);
  Print("\n");
  ::signal(signal, SIG_DFL);
  raise(signal);
}

void Catch(int signal) {
  struct sigaction action {};
  action.sa_handler = OnFault;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  sigaction(signal, &action, nullptr);
}

}  // namespace

FaultWatch::FaultWatch(std::string path) : path_(std::move(path)) {
  std::snprintf(input_path, sizeof input_path, "%s", path_.c_str());
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (file_ < 0) {
    std::fprintf(stderr, "error: %s: cannot be written\n", path_.c_str());
    std::exit(2);
  }
  Catch(SIGPROF);
  Catch(SIGALRM);
  Catch(SIGABRT);
#ifndef ACT_ADDRESS_SANITIZER  // a sanitizer has handlers of its own, which tell more
  static char stack[1 << 16];  // a recursion without end leaves none
  const stack_t alternative{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&alternative, nullptr);
  for (const int signal : {SIGSEGV, SIGFPE, SIGBUS, SIGILL}) Catch(signal);
  const rlimit limit{static_cast<rlim_t>(kMostMemory), static_cast<rlim_t>(kMostMemory)};
  setrlimit(RLIMIT_DATA, &limit);  // more memory throws std::bad_alloc, which nothing catches
#endif
}

void FaultWatch::Run(std::span<const uint8_t> input) {
  if (ftruncate(file_, 0) != 0 ||
      pwrite(file_, input.data(), input.size(), 0) != static_cast<ssize_t>(input.size())) {
    std::fprintf(stderr, "error: %s: cannot be written\n", path_.c_str());
    std::exit(2);
  }
  SetClocks(kMostSeconds, kMostWaitSeconds);
  LLVMFuzzerTestOneInput(input.data(), input.size());
  SetClocks(0, 0);
}

void FaultWatch::Done() {
  close(file_);
  unlink(path_.c_str());
}

}  // namespace act::fuzz
