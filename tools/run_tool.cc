#include "tools/run_tool.h"

#include <fcntl.h>
#include <llvm/Support/raw_ostream.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "tools/exhausted_memory.h"

namespace act {
namespace {

constexpr int kFailed = 1;

// Handlers of signals have no argument of ours.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
const char* g_tool = "";
std::atomic<volatile std::sig_atomic_t*> g_stop = nullptr;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void OnSignal(int number) {
  if (volatile std::sig_atomic_t* stop = g_stop; stop && (!*stop || number == SIGHUP)) {
    *stop = 1;
    return;
  }
  RemoveTemporaryFiles();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void HandleSignals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = OnSignal;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_NODEFER);
    sigaction(number, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

// Without this, a file that is opened gets the number of a standard stream that is closed, and what is
// printed goes into that file. Standard output cannot be written afterwards either, as if closed.
void OccupyStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

// At exit, also at that of --help, and at that of a library: OpenMP ends the process if it gets no thread
// or no memory.
void FinishOutput(int status, void* returned) {
  RemoveTemporaryFiles();
  if (status != 0 && !*static_cast<const bool*>(returned))
    PrintError(g_tool, MakeError("a library ended the run", "its message is above",
                                 "the limit of threads or of memory may be too low (ulimit -u, -v)"));
  llvm::outs().flush();
  const std::error_code error = llvm::outs().error();
  // A stream that still has an error ends the process in its destructor.
  llvm::outs().clear_error();
  if (error == std::errc::broken_pipe) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  if (error) PrintError(g_tool, MakeError("standard output", "cannot write: " + error.message()));
  llvm::errs().clear_error();
  if (error) ::_exit(kFailed);
}

}  // namespace

int RunTool(const char* tool, int argc, char** argv, int (*tool_main)(int, char**)) {
  g_tool = tool;
  OccupyStandardStreams();
  HandleExhaustedMemory(tool);
  HandleSignals();
  // Both streams exist before FinishOutput is registered, and so are destroyed after it has run.
  llvm::outs();
  llvm::errs();
  static bool returned = false;
  on_exit(FinishOutput, &returned);
  int status = kFailed;
  try {
    status = tool_main(argc, argv);
  } catch (const std::exception& error) {
    PrintError(tool, MakeError("internal", error.what()));
  }
  returned = true;
  return status;
}

void StopAtSignals(volatile std::sig_atomic_t* stop) { g_stop = stop; }

}  // namespace act
