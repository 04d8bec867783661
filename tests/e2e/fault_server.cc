#include "tests/e2e/fault_server.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>
#include <utility>

#include "tests/paths.h"

namespace act::e2e {
namespace {

// In the order of fail_call.c's enumeration.
constexpr const char* kKinds[] = {"open",   "stat",   "read",  "write",  "map",    "sync",
                                  "rename", "unlink", "close", "memory", "thread", "clock"};

}  // namespace

bool CanInjectFaults() {
#ifdef ACT_SANITIZER
  return false;
#else
  return true;
#endif
}

std::string ToString(const Fault& fault) {
  return fault.kind + " " + std::to_string(fault.at) + " " + fault.action + " " + std::to_string(fault.value);
}

FaultServer::FaultServer(std::vector<std::string> args, std::string folder) : folder_(std::move(folder)) {
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  int requests[2], answers[2];
  if (pipe(requests) != 0 || pipe(answers) != 0) return;
  const std::string library = FailCallPath();
  process_ = fork();
  if (process_ == 0) {
    dup2(requests[0], STDIN_FILENO);
    dup2(answers[1], STDOUT_FILENO);
    for (const int fd : {requests[0], requests[1], answers[0], answers[1]}) close(fd);
    setenv("LD_PRELOAD", library.c_str(), /*overwrite=*/1);
    setenv("ACT_FAULT_TRACE", kTrace, 1);
    setenv("ACT_TUNE", "off", /*overwrite=*/0);  // so that all runs have the same kernels
    setenv("ACT_TUNE_CACHE", folder_.c_str(), 1);
    if (chdir(folder_.c_str()) == 0) execv(argv[0], argv.data());
    _exit(127);
  }
  close(requests[0]);
  close(answers[1]);
  signal(SIGPIPE, SIG_IGN);  // a server that does not start is a failing test
  requests_ = fdopen(requests[1], "w");
  answers_ = fdopen(answers[0], "r");
}

FaultServer::~FaultServer() {
  if (requests_) fclose(requests_);  // the end of its input ends the server
  if (answers_) fclose(answers_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

Faulted FaultServer::Run(const Fault& fault) {
  Faulted result;
  if (!requests_ || !answers_) return result;
  const std::string request = ToString(fault) + " " + kOut + " " + kErr + "\n";
  fputs(request.c_str(), requests_);
  fflush(requests_);
  int status = 0;
  if (fscanf(answers_, "%d", &status) != 1) return result;
  for (const char* kind : kKinds) {
    long long calls = 0;
    if (fscanf(answers_, "%lld", &calls) != 1) return result;
    result.calls[kind] = calls;
  }
  result.outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.outcome.out = ReadFile(folder_ + "/" + kOut);
  result.outcome.err = ReadFile(folder_ + "/" + kErr);
  return result;
}

std::vector<std::string> FaultServer::Trace() {
  Run({.action = "trace"});
  std::vector<std::string> calls;
  std::istringstream lines(ReadFile(folder_ + "/" + kTrace));
  for (std::string line; std::getline(lines, line);)
    calls.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  return calls;
}

}  // namespace act::e2e
