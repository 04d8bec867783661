// NumPy's .npy format (numpy.lib.format, versions 1 to 3): one array a file.
//
//   "\x93NUMPY", u8 major, u8 minor, length of the header (u16 in version 1, u32 later)
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//   row-major bytes
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/file.h"
#include "runtime/data/host_view.h"

namespace act {

class NpyFile {
 public:
  // Maps the file. Errors: not an .npy file, column-major or big-endian data, an unsupported type,
  // a cut-off file.
  static llvm::Expected<NpyFile> Open(const std::string& path);

  const HostView& view() const { return view_; }
  const std::string& path() const { return path_; }
  const std::shared_ptr<const MappedFile>& mapped() const { return file_; }

 private:
  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  HostView view_;
};

// Writes one array.
llvm::Error WriteNpy(const std::string& path, const HostView& view);

}  // namespace act
