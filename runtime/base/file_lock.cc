#include "runtime/base/file_lock.h"

#include <fcntl.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/temporary_files.h"

namespace act {
namespace {

struct Closer {
  int fd;
  ~Closer() {
    if (fd >= 0) ::close(fd);
  }
  int Release() { return std::exchange(fd, -1); }
};

llvm::Error CannotWrite(const std::string& path, int error_number) {
  return MakeError(path, std::string("cannot write: ") + std::strerror(error_number));
}

// "another run saves there (process 123)".
llvm::Error Held(const std::string& path, int fd) {
  char text[32] = {};
  const ssize_t bytes = ::pread(fd, text, sizeof text - 1, 0);
  std::string holder(text, static_cast<size_t>(bytes > 0 ? bytes : 0));
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  return MakeError(path, "another run saves there" + (holder.empty() ? "" : " (process " + holder + ")"),
                   "wait for its end, or give each run a file of its own");
}

// Whether `path` still names the open file. Its last holder may have removed it meanwhile.
bool IsNamed(int fd, const std::string& path) {
  struct stat open, named;
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

// Signals that end the process come after it: until the lock is held, its file may be another process's and must not
// be removed; and from then on it must.
struct SignalsWait {
  sigset_t before = {};
  SignalsWait() {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;
};

}  // namespace

llvm::Expected<std::unique_ptr<FileLock>> FileLock::Take(const std::string& path) {
  std::string lock = path;
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) return nullptr;
    llvm::SmallString<256> real;
    if (!llvm::sys::fs::real_path(path, real)) lock = real.str().str();
  }
  lock += ".lock";
  // Before the file exists, so that exhausted memory does not leave it behind.
  std::unique_ptr<FileLock> held(new FileLock(std::move(lock)));
  const char* const name = held->path_.c_str();
  const SignalsWait signals;
  for (;;) {
    Closer file{::open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (file.fd < 0 && errno == EINTR) continue;
    if (file.fd < 0) return CannotWrite(path, errno);
    if (::flock(file.fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return Held(path, file.fd);
      ::unlink(name);
      return nullptr;
    }
    if (!IsNamed(file.fd, held->path_)) continue;
    held->fd_ = file.Release();
    ListTemporaryFile(name);
    // The number is for the message of others; a disk too full for it locks as well.
    const std::string holder = std::to_string(::getpid()) + "\n";
    if (::ftruncate(held->fd_, 0) != 0 || ::pwrite(held->fd_, holder.data(), holder.size(), 0) < 0) errno = 0;
    return held;
  }
}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  UnlistTemporaryFile(path_.c_str());
  ::close(fd_);
}

}  // namespace act
