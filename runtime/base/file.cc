#include "runtime/base/file.h"

#include <fcntl.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/base/error.h"

namespace act {
namespace {

llvm::Error SystemError(const std::string& path, const std::string& what, int error_number) {
  return MakeError(path, what + ": " + std::strerror(error_number));
}

llvm::Error SyncToDisk(int fd, const std::string& path) {
  // EINVAL and EROFS: the file system, a pipe or a device does not support fsync.
  if (::fsync(fd) == 0 || errno == EINVAL || errno == EROFS) return llvm::Error::success();
  return SystemError(path, "cannot write", errno);
}

// A new file name reaches the disk only when its folder is synced.
llvm::Error SyncFolderOf(const std::string& path) {
  std::string folder = llvm::sys::path::parent_path(path).str();
  if (folder.empty()) folder = ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return llvm::Error::success();  // a folder that may be written to but not read
  llvm::Error synced = SyncToDisk(fd, path);
  ::close(fd);
  return synced;
}

}  // namespace

llvm::Expected<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError(path, "cannot open", errno);
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};

  struct stat status;
  if (::fstat(fd, &status) != 0) return SystemError(path, "cannot open", errno);
  if (S_ISDIR(status.st_mode)) return MakeError(path, "a folder, not a file");
  if (!S_ISREG(status.st_mode)) return MakeError(path, "not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return SystemError(path, "cannot read", errno);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::ReleasePages() const {
  if (data_) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

// LLVM's TempFile would also take over the program's signal handlers, so only its unique names are
// used.
struct OutputFile::Target {
  std::string path;       // as the user wrote it: in messages
  std::string resolved;   // the file to replace: `path` with symbolic links followed
  std::string temporary;  // empty: `fd` is the device or pipe itself
  int fd = -1;

  ~Target() {
    if (fd >= 0) ::close(fd);
    if (!temporary.empty()) ::unlink(temporary.c_str());
  }
};

OutputFile::OutputFile(std::unique_ptr<Target> target) : target_(std::move(target)) {}
OutputFile::~OutputFile() = default;

llvm::Expected<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  auto target = std::make_unique<Target>();
  target->path = target->resolved = path;

  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return MakeError(path, "cannot write: it is a folder");
    if (!S_ISREG(status.st_mode)) {
      target->fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (target->fd < 0) return SystemError(path, "cannot write", errno);
      return std::unique_ptr<OutputFile>(new OutputFile(std::move(target)));
    }
    llvm::SmallString<256> real;
    if (!llvm::sys::fs::real_path(path, real)) target->resolved = real.str().str();
  }

  llvm::SmallString<256> temporary;
  if (const std::error_code code =
          llvm::sys::fs::createUniqueFile(target->resolved + ".%%%%%%%%.tmp", target->fd, temporary)) {
    return MakeError(path, "cannot write: " + code.message());
  }
  target->temporary = temporary.str().str();
  return std::unique_ptr<OutputFile>(new OutputFile(std::move(target)));
}

llvm::Error OutputFile::Write(const void* data, int64_t bytes) {
  constexpr int64_t kMostAtOnce = int64_t{1} << 30;  // Linux writes at most 2 GiB a call
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(target_->fd, from, static_cast<size_t>(std::min(bytes, kMostAtOnce)));
    if (written < 0) {
      if (errno == EINTR) continue;
      return SystemError(target_->path, "cannot write", errno);
    }
    from += written;
    bytes -= written;
  }
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<const MappedFile>> OutputFile::ReadBack() {
  if (target_->temporary.empty()) return MakeError(target_->path, "cannot write: not a regular file");
  return MappedFile::Open(target_->temporary);
}

llvm::Error OutputFile::Commit() {
  const std::unique_ptr<Target> target = std::move(target_);
  ACT_CHECK_OK(SyncToDisk(target->fd, target->path));
  if (target->temporary.empty()) return llvm::Error::success();
  if (std::rename(target->temporary.c_str(), target->resolved.c_str()) != 0) {
    return SystemError(target->path, "cannot write", errno);
  }
  target->temporary.clear();
  return SyncFolderOf(target->resolved);
}

llvm::Error WriteFile(const std::string& path, std::string_view contents) {
  ACT_TRY(auto file, OutputFile::Create(path));
  ACT_CHECK_OK(file->Write(contents.data(), static_cast<int64_t>(contents.size())));
  return file->Commit();
}

}  // namespace act
