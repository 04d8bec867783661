#include "runtime/base/file.h"

#include <fcntl.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/temporary_files.h"

namespace act {
namespace {

uintptr_t PageBytes() {
  static const auto bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

llvm::Error SystemError(const std::string& path, const std::string& what, int error_number) {
  return MakeError(path, what + ": " + std::strerror(error_number));
}

// A call that a signal cut short is made again.
template <class Call>
auto Uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

int OpenFile(const std::string& path, int flags) {
  return Uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

// 0 or the number of an error.
int SyncToDisk(int fd) {
  // EINVAL and EROFS: the file system, a pipe or a device does not support fsync.
  const bool done = Uninterrupted([fd] { return ::fsync(fd); }) == 0 || errno == EINVAL || errno == EROFS;
  return done ? 0 : errno;
}

// A file descriptor that is closed in the end.
struct Descriptor {
  int fd = -1;
  Descriptor() = default;
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// Names of temporary files that exist or are about to, for RemoveTemporaryFiles. A handler of signals
// may take no lock, so they are in a table of fixed size. More files than it has places are never open
// at once: a tool writes one or two.
constexpr size_t kMostTemporaries = 16;
std::atomic<const char*> g_temporaries[kMostTemporaries];

// Reads a byte of each page. If a file that is mapped there has become shorter, the error names that file.
void TouchPages(const char* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += ::sysconf(_SC_PAGESIZE))
    [[maybe_unused]] const volatile char byte = static_cast<const volatile char*>(from)[at];
}

}  // namespace

void ListTemporaryFile(const char* path) {
  for (std::atomic<const char*>& place : g_temporaries) {
    const char* free = nullptr;
    if (place.compare_exchange_strong(free, path)) return;
  }
}

void UnlistTemporaryFile(const char* path) {
  for (std::atomic<const char*>& place : g_temporaries) {
    const char* listed = path;
    if (place.compare_exchange_strong(listed, nullptr)) return;
  }
}

void RemoveTemporaryFiles() noexcept {
  for (const std::atomic<const char*>& place : g_temporaries)
    if (const char* path = place) ::unlink(path);
}

llvm::Expected<int> OpenForWriting(const std::string& path, int flags) {
  const int fd = OpenFile(path, O_WRONLY | O_NONBLOCK | flags);
  if (fd >= 0) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);  // writes wait for the reader
    return fd;
  }
  const int error_number = errno;
  struct stat status;
  if (error_number == ENXIO && ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode))
    return MakeError(path, "cannot write: nobody reads this pipe", "start its reader first");
  return SystemError(path, "cannot write", error_number);
}

llvm::Expected<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: a pipe without a writer is refused below. Without the flag, the call would wait for one.
  const Descriptor file(OpenFile(path, O_RDONLY | O_NONBLOCK));
  if (file.fd < 0) return SystemError(path, "cannot open", errno);

  struct stat status;
  if (::fstat(file.fd, &status) != 0) return SystemError(path, "cannot open", errno);
  if (S_ISDIR(status.st_mode)) return MakeError(path, "a folder, not a file");
  if (!S_ISREG(status.st_mode)) return MakeError(path, "not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) return SystemError(path, "cannot read", errno);
  }
  const std::shared_ptr<MappedFile> mapped(new MappedFile(static_cast<const std::byte*>(data), size));
  if (size > 0) mapped->faults_.emplace(path, mapped->data_, status);
  return mapped;
}

MappedFile::~MappedFile() {
  faults_.reset();
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::ReleasePages(std::span<const std::byte> part) const {
  // The last page of the file, which is not full, counts as whole.
  const uintptr_t page = PageBytes(), begin = reinterpret_cast<uintptr_t>(part.data()),
                  end = begin + part.size();
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = part.data() + part.size() == data_ + size_ ? end : end / page * page;
  if (first < last)
    ::madvise(const_cast<std::byte*>(part.data() + (first - begin)), last - first, MADV_DONTNEED);
}

void MappedFile::CheckLength() const {
  if (faults_) faults_->CheckLength();
}

void MappedFile::ExpectPartsInAnyOrder() const {
  if (data_) ::madvise(const_cast<std::byte*>(data_), size_, MADV_RANDOM);
}

void MappedFile::WillRead(const std::byte* from, int64_t bytes) const {
  const uintptr_t in_page = reinterpret_cast<uintptr_t>(from) % PageBytes();
  if (bytes > 0)
    ::madvise(const_cast<std::byte*>(from - in_page), static_cast<size_t>(bytes) + in_page, MADV_WILLNEED);
}

// LLVM's TempFile would also take over the program's signal handlers, so only its unique names are
// used.
struct OutputFile::Target {
  std::string path;       // as the user wrote it: in messages
  std::string resolved;   // the file to replace: `path` with symbolic links followed
  std::string temporary;  // empty: `file` is the device or pipe itself
  Descriptor file;

  ~Target() {
    if (temporary.empty()) return;
    ::unlink(temporary.c_str());
    UnlistTemporaryFile(temporary.c_str());
  }

  // 0 or the number of an error. The name is listed before the file exists, so that no moment is left
  // in which a signal would leave it behind.
  int OpenTemporary() {
    constexpr int kMostNames = 128;
    for (int name = 0; name < kMostNames; ++name) {
      llvm::SmallString<256> unique;
      llvm::sys::fs::createUniquePath(resolved + ".%%%%%%%%.tmp", unique, /*MakeAbsolute=*/false);
      temporary = unique.str().str();
      ListTemporaryFile(temporary.c_str());
      file.fd = OpenFile(temporary, O_RDWR | O_CREAT | O_EXCL);
      if (file.fd >= 0) return 0;
      const int error_number = errno;
      UnlistTemporaryFile(temporary.c_str());
      temporary.clear();
      if (error_number != EEXIST) return error_number;
    }
    return EEXIST;
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
      ACT_TRY(target->file.fd, OpenForWriting(path));
      return std::unique_ptr<OutputFile>(new OutputFile(std::move(target)));
    }
    llvm::SmallString<256> real;
    if (const std::error_code code = llvm::sys::fs::real_path(path, real))
      return MakeError(path, "cannot write: " + code.message());
    target->resolved = real.str().str();
  } else if (errno != ENOENT) {
    // What is there is unknown, and it may be a link, which must not be replaced.
    return SystemError(path, "cannot write", errno);
  }

  if (const int error_number = target->OpenTemporary())
    return SystemError(path, "cannot write", error_number);
  return std::unique_ptr<OutputFile>(new OutputFile(std::move(target)));
}

llvm::Error OutputFile::Write(const void* data, int64_t bytes) {
  constexpr int64_t kMostAtOnce = int64_t{1} << 30;  // Linux writes at most 2 GiB a call
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = Uninterrupted(
        [&] { return ::write(target_->file.fd, from, static_cast<size_t>(std::min(bytes, kMostAtOnce))); });
    if (written < 0) {
      const int error_number = errno;
      if (error_number == EFAULT) TouchPages(from, bytes);
      return SystemError(target_->path, "cannot write", error_number);
    }
    if (written == 0) return MakeError(target_->path, "cannot write: the system takes no more bytes");
    from += written;
    bytes -= written;
  }
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<const MappedFile>> OutputFile::ReadBack() {
  if (target_->temporary.empty()) return MakeError(target_->path, "cannot write: not a regular file");
  auto file = MappedFile::Open(target_->temporary);
  // The user knows the name that the file will have.
  if (!file)
    return llvm::handleErrors(file.takeError(), [&](const ActError& error) {
      return MakeError(target_->path, error.what(), error.hint());
    });
  return file;
}

llvm::Error OutputFile::Commit() {
  const std::unique_ptr<Target> target = std::move(target_);
  const auto failed = [&](int error_number) {
    return SystemError(target->path, "cannot write", error_number);
  };
  if (const int error_number = SyncToDisk(target->file.fd)) return failed(error_number);
  if (target->temporary.empty()) return llvm::Error::success();

  // A new name reaches the disk only when its folder is synced. Whether the folder can be opened is
  // known before the old file is replaced. EACCES: it may be written to but not read.
  const llvm::StringRef parent = llvm::sys::path::parent_path(target->resolved);
  const Descriptor folder(OpenFile(parent.empty() ? "." : parent.str(), O_RDONLY | O_DIRECTORY));
  if (folder.fd < 0 && errno != EACCES) return failed(errno);
  if (std::rename(target->temporary.c_str(), target->resolved.c_str()) != 0) return failed(errno);
  UnlistTemporaryFile(target->temporary.c_str());
  target->temporary.clear();
  if (folder.fd < 0) return llvm::Error::success();
  if (const int error_number = SyncToDisk(folder.fd))
    return MakeError(
        target->path,
        std::string("was replaced, but its folder cannot be flushed to disk: ") + std::strerror(error_number),
        "the new file is complete; if the machine fails now, the old one may come back");
  return llvm::Error::success();
}

llvm::Error WriteFile(const std::string& path, std::string_view contents) {
  ACT_TRY(auto file, OutputFile::Create(path));
  ACT_CHECK_OK(file->Write(contents.data(), static_cast<int64_t>(contents.size())));
  return file->Commit();
}

}  // namespace act
