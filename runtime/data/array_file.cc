#include "runtime/data/array_file.h"

#include "runtime/base/error.h"
#include "runtime/data/npy.h"
#include "runtime/data/safetensors.h"

namespace act {
namespace {

// "it holds: a, b, c and 5 more".
std::string NamesIn(const Safetensors& file) {
  constexpr size_t kMostNames = 8;
  if (file.tensors().empty()) return "it holds no tensor";
  std::string text;
  size_t told = 0;
  for (const auto& [name, view] : file.tensors()) {
    if (told == kMostNames) break;
    text += (told++ ? ", " : "it holds: ") + name;
  }
  const size_t rest = file.tensors().size() - told;
  return rest > 0 ? text + " and " + std::to_string(rest) + " more" : text;
}

}  // namespace

bool IsSafetensorsName(const std::string& path) { return path.ends_with(".safetensors"); }

llvm::Expected<ArrayFile> ArrayFile::Open(const std::string& path, const std::string& tensor) {
  if (!IsSafetensorsName(path)) {
    ACT_TRY(const NpyFile file, NpyFile::Open(path));
    return ArrayFile(path, file.view(), file.mapped());
  }
  ACT_TRY(const Safetensors file, Safetensors::Open(path));
  const HostView* view = file.Find(tensor);
  if (!view) return MakeError(path, "has no tensor '" + tensor + "'", NamesIn(file));
  return ArrayFile(path, *view, file.mapped());
}

}  // namespace act
