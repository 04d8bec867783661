#include "runtime/base/file_lock.h"

#include <fcntl.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"

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
  for (;;) {
    Closer file{::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (file.fd < 0) return CannotWrite(path, errno);
    if (::flock(file.fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return Held(path, file.fd);
      ::unlink(lock.c_str());
      return nullptr;
    }
    if (!IsNamed(file.fd, lock)) continue;
    // The number is for the message of others; a disk too full for it locks as well.
    const std::string holder = std::to_string(::getpid()) + "\n";
    if (::ftruncate(file.fd, 0) != 0 || ::pwrite(file.fd, holder.data(), holder.size(), 0) < 0) errno = 0;
    return std::unique_ptr<FileLock>(new FileLock(std::move(lock), file.Release()));
  }
}

FileLock::~FileLock() {
  ::unlink(path_.c_str());
  ::close(fd_);
}

}  // namespace act
