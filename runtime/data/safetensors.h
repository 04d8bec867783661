// The safetensors format (github.com/huggingface/safetensors): a JSON header, then the tensors'
// bytes.
//
//   u64 little-endian: length of the header
//   {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [begin, end]}, ...,
//   "__metadata__": {"key": "text"}}
//   bytes; offsets count from their start, and the tensors cover them without holes or overlaps
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/host_view.h"

namespace act {

class Safetensors {
 public:
  // Maps the file and checks its header. The tensors' bytes are read when touched. Errors name the
  // file and the tensor: cut-off files, sizes that do not fit the shape, holes, overlaps, unknown
  // types.
  static llvm::Expected<Safetensors> Open(const std::string& path);

  const std::map<std::string, HostView>& tensors() const { return tensors_; }
  // Null if there is no tensor of that name.
  const HostView* Find(const std::string& name) const;
  const std::string& path() const { return path_; }
  const std::shared_ptr<const MappedFile>& mapped() const { return file_; }
  // Lets the system drop the file's pages. What is read again comes from the disk or its cache.
  void ReleasePages() const { file_->ReleasePages(); }

 private:
  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, HostView> tensors_;
};

struct NamedTensor {
  std::string name;  // UTF-8
  HostView view;
  // Where the bytes come from if view.data is null. Called when the tensor is written; the bytes
  // need not outlive the next call of such a function.
  std::function<llvm::Expected<std::span<const std::byte>>()> read = nullptr;
};

// Writes the tensors in the given order, one after the other, without copying them. On failure (a full disk) no file
// appears, and an earlier file stays as it was.
llvm::Error WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace act
