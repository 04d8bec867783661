// One process at a time writes a file, and the files that belong to it.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <utility>

namespace act {

// Holds PATH.lock until it is destroyed, which removes that file. RemoveTemporaryFiles() removes it, too. The system
// releases the lock of a process that is killed; its file then stays, empty of meaning, and the next lock takes it
// over.
class FileLock {
 public:
  // Null where there is nothing to lock: `path` is a folder, a device or a pipe, or the file system has no locks.
  // Symbolic links are followed, so two names of one file have the same lock. Errors: another process holds the
  // lock; the folder cannot be written to.
  static llvm::Expected<std::unique_ptr<FileLock>> Take(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(std::string path) : path_(std::move(path)) {}
  const std::string path_;  // of the lock's own file
  int fd_ = -1;             // until the lock is held
};

}  // namespace act
