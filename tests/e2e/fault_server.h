// A built tool in which one call of the system goes wrong: what tests/faults/fail_call.c does, as a class.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/process.h"

namespace act::e2e {

// The sanitizers' library must be the first that a program loads, so nothing can be loaded before it.
bool CanInjectFaults();

// What is done to the `at`-th call of a kind; fail_call.c has the names and what `value` means.
struct Fault {
  std::string kind = "none";
  int64_t at = 0;
  std::string action = "none";
  int64_t value = 0;
};

std::string ToString(const Fault& fault);

struct Faulted {
  Outcome outcome;
  std::map<std::string, int64_t> calls;  // by kind
};

// Runs the same command line any number of times, at the cost of a fork each.
class FaultServer {
 public:
  // `folder` becomes the working folder; the streams of a run are files in it, kOut and kErr.
  static constexpr char kOut[] = "stdout", kErr[] = "stderr", kTrace[] = "trace";
  FaultServer(std::vector<std::string> args, std::string folder);
  ~FaultServer();
  FaultServer(const FaultServer&) = delete;
  FaultServer& operator=(const FaultServer&) = delete;

  Faulted Run(const Fault& fault);
  // The calls on files of a run in which nothing fails, in order: "write PATH", "sync PATH", "rename FROM TO".
  std::vector<std::string> Trace();

 private:
  const std::string folder_;
  pid_t process_ = -1;
  FILE* requests_ = nullptr;
  FILE* answers_ = nullptr;
};

}  // namespace act::e2e
