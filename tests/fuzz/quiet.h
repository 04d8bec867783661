// Hides what the code under test prints for people.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace act::fuzz {

// The process's standard error goes nowhere while this lives. A report of a sanitizer goes there too, but the input of a fault stays.
class Quiet {
 public:
  Quiet() : stderr_(dup(STDERR_FILENO)) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
  }
  ~Quiet() {
    dup2(stderr_, STDERR_FILENO);
    close(stderr_);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  int stderr_;
};

}  // namespace act::fuzz
