// A file that becomes shorter while it is mapped, or whose disk fails. A read of such a byte raises SIGBUS,
// which would end the process without a word. So it ends with an error that names the file.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>

namespace act {

struct MappedRange;

// While one exists, a fault within the file's bytes, which are mapped at `data`, ends the process: "TOOL:
// error: PATH: ..." on standard error, no temporary files, exit code 1. Faults elsewhere are as ever.
//
// The process ends in the handler of the signal, because nothing else is sound: the read can neither go on
// nor be undone, and it may be anywhere, in a library or in a thread of its own. The handler calls only what
// handlers may call. It takes no lock and no memory, and finds the range in a list whose entries are never
// freed.
class FaultsOfFile {
 public:
  // `status`: of the file, which is not empty.
  FaultsOfFile(const std::string& path, const std::byte* data, const struct stat& status);
  ~FaultsOfFile();
  FaultsOfFile(const FaultsOfFile&) = delete;
  FaultsOfFile& operator=(const FaultsOfFile&) = delete;

  // Ends the process in the same way if the file has become shorter. A read shows that only if whole pages
  // are gone: what is missing of its last page is zeros.
  void CheckLength() const;

 private:
  MappedRange* range_;
};

}  // namespace act
