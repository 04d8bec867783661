#include "tools/output_files.h"

#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace act {
namespace {

namespace fs = std::filesystem;

// Files that are there or will be. Devices (/dev/null) may be written twice.
bool AreOneFile(const fs::path& a, const fs::path& b) {
  std::error_code error;
  const auto is_other = [&error](const fs::path& path) {
    return fs::exists(path, error) && !fs::is_regular_file(path, error);
  };
  if (is_other(a) || is_other(b)) return false;
  const fs::path whole_a = fs::weakly_canonical(fs::absolute(a, error), error);
  return !error && whole_a == fs::weakly_canonical(fs::absolute(b, error), error);
}

}  // namespace

llvm::Error CheckOutputs(const std::string& input, const std::vector<OutputPath>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [flag, path] = outputs[i];
    if (path.empty()) continue;
    ACT_CHECK_OK(OutputFile::Create(path).takeError());
    if (!input.empty() && AreOneFile(path, input))
      return MakeError(flag, path + " is the file that is read, and would be lost", "name another file");
    for (size_t k = 0; k < i; ++k)
      if (!outputs[k].path.empty() && AreOneFile(path, outputs[k].path))
        return MakeError(flag, path + " is written by " + outputs[k].flag + ", too", "name two files");
  }
  return llvm::Error::success();
}

}  // namespace act
