// Whole files: mapped for reading, and replaced as a whole when written.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/mapped_fault.h"

namespace act {

// A file's bytes, read-only, for as long as the object lives. Pages are read from disk when
// touched. If that fails, since the file has become shorter, the process ends with an error (mapped_fault.h).
class MappedFile {
 public:
  // Errors: the file does not exist, may not be read, or is not a regular file.
  static llvm::Expected<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Lets the system drop the resident pages. Bytes that are read again come from the disk or its
  // cache.
  void ReleasePages() const { ReleasePages(bytes()); }
  // Of a part of bytes(): those that lie wholly in it.
  void ReleasePages(std::span<const std::byte> part) const;
  // Small parts of the file will be read, in any order. The system then reads nothing around them, so they
  // must be announced by WillRead: otherwise each page is a read of its own.
  void ExpectPartsInAnyOrder() const;
  // The `bytes` bytes at `from` will be read soon. The system begins to bring them into its cache.
  void WillRead(const std::byte* from, int64_t bytes) const;
  // Ends the process with an error if the file has become shorter. Reads notice that only if whole pages are gone.
  void CheckLength() const;

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_;  // null for an empty file
  size_t size_;
  std::optional<FaultsOfFile> faults_;  // if there are bytes
};

// Opens a file, device or pipe for writing, with more `flags` of open(2), and returns its descriptor. It does
// not wait for the reader of a pipe: without one, that is an error.
llvm::Expected<int> OpenForWriting(const std::string& path, int flags = 0);

// A file that appears at `path` only when it is complete. Bytes go to a temporary file in the same
// folder, and Commit() moves it into place. Until then, and after any failure, a file that was
// there before stays as it is. Destruction without a Commit() removes the temporary file; a process
// that ends otherwise calls RemoveTemporaryFiles(). A path that names a device or a pipe (/dev/stdout) is written to directly.
class OutputFile {
 public:
  static llvm::Expected<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  llvm::Error Write(const void* data, int64_t bytes);
  // What Write() has written so far. It is an error if the path is a device or a pipe.
  llvm::Expected<std::shared_ptr<const MappedFile>> ReadBack();
  // Flushes the file to disk, moves it into place, and flushes the folder. Nothing can be written
  // afterwards. If the folder alone cannot be flushed, the new file is in place and this is an error.
  llvm::Error Commit();

 private:
  struct Target;
  explicit OutputFile(std::unique_ptr<Target> target);
  std::unique_ptr<Target> target_;
};

// Removes the temporary files of every OutputFile of the process. It is for handlers of signals and of
// exhausted memory, and so takes no lock and no memory. Nothing may be written afterwards.
void RemoveTemporaryFiles() noexcept;

// Create, Write and Commit in one.
llvm::Error WriteFile(const std::string& path, std::string_view contents);

}  // namespace act
