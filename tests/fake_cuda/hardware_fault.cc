#include "tests/fake_cuda/hardware_fault.h"

#include <cstdio>
#include <string>

#include "tests/fake_cuda/block.h"

namespace act::fake {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE};
thread_local BlockRunner* running = nullptr;
alignas(64) thread_local unsigned char signal_stack[64 << 10];

void OnFault(int signal, siginfo_t* info, void*) {
  if (!running || !running->in_thread()) {
    std::signal(signal, SIG_DFL);  // the instruction runs again, and ends the process
    return;
  }
  // Leaves the handler for good: SA_NODEFER has not blocked the signal, and the stack is ready for the
  // next one.
  if (signal == SIGFPE) running->Fail("an integer division by 0");
  char text[128];
  std::snprintf(text, sizeof text, "touches %p, which is no memory that it sees without Load and Store",
                info->si_addr);
  running->Fail(text);
}

}  // namespace

HardwareFaultsOfKernels::HardwareFaultsOfKernels(BlockRunner& runner) {
  running = &runner;
  stack_t stack = {};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof signal_stack;
  sigaltstack(&stack, &stack_before_);
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

HardwareFaultsOfKernels::~HardwareFaultsOfKernels() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  sigaltstack(&stack_before_, nullptr);
  running = nullptr;
}

}  // namespace act::fake
