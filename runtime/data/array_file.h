// One array of a data set's file, NumPy's or safetensors. Its first axis counts samples.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/data/host_view.h"

namespace act {

// Whether the file's name says that it is safetensors. All other files are taken for NumPy's.
bool IsSafetensorsName(const std::string& path);

class ArrayFile {
 public:
  // Maps the file. `tensor` is its name in a safetensors file; an .npy file has one array. Errors: those
  // of the format, and a safetensors file without that tensor.
  static llvm::Expected<ArrayFile> Open(const std::string& path, const std::string& tensor);

  const HostView& view() const { return view_; }
  const std::string& path() const { return path_; }
  const MappedFile& mapped() const { return *file_; }

 private:
  ArrayFile(std::string path, HostView view, std::shared_ptr<const MappedFile> file)
      : path_(std::move(path)), view_(std::move(view)), file_(std::move(file)) {}

  std::string path_;
  HostView view_;
  std::shared_ptr<const MappedFile> file_;
};

}  // namespace act
