#include "tools/output_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/data/data_spec.h"

namespace act {
namespace {

namespace fs = std::filesystem;

// Devices (/dev/null) and pipes, which may be written twice.
bool IsOther(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error);
}

// A file that is there or will be, by the one name that it has in its folder.
fs::path WholePath(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? fs::path() : whole;
}

llvm::Error CheckWritable(const OutputPath& output) {
  std::error_code ignored;
  if (!output.appends) return OutputFile::Create(output.path).takeError();
  if (!fs::exists(output.path, ignored)) {
    llvm::Error error = OutputFile::Create(output.path).takeError();
    return error ? WithPlace(std::move(error), output.flag) : llvm::Error::success();
  }
  if (fs::is_directory(output.path, ignored))
    return MakeError(output.flag + ": " + output.path, "cannot write: it is a folder");
  if (::access(output.path.c_str(), W_OK) == 0) return llvm::Error::success();
  return MakeError(output.flag + ": " + output.path, std::string("cannot write: ") + std::strerror(errno));
}

}  // namespace

llvm::Error CheckOutputs(const std::vector<InputPath>& inputs, const std::vector<OutputPath>& outputs) {
  std::vector<fs::path> read, written;
  for (const InputPath& input : inputs)
    read.push_back(input.path.empty() || IsOther(input.path) ? fs::path() : WholePath(input.path));
  for (const OutputPath& output : outputs) {
    const auto& [flag, path, appends] = output;
    written.emplace_back();
    if (path.empty()) continue;
    ACT_CHECK_OK(CheckWritable(output));
    if (IsOther(path)) continue;
    const fs::path whole = written.back() = WholePath(path);
    if (whole.empty()) continue;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& replaced_by = inputs[i].replaced_by;
      if (read[i] != whole || std::find(replaced_by.begin(), replaced_by.end(), flag) != replaced_by.end())
        continue;
      const std::string reader = inputs[i].flag.empty() ? "is read" : inputs[i].flag + " reads";
      return MakeError(flag, path + " is the file that " + reader + ", and would be lost",
                       "name another file");
    }
    for (size_t k = 0; k + 1 < written.size(); ++k)
      if (written[k] == whole)
        return MakeError(flag, path + " is written by " + outputs[k].flag + ", too", "name two files");
  }
  return llvm::Error::success();
}

void AddDataFiles(const std::string& flag, const std::string& text, std::vector<InputPath>& inputs) {
  if (text.empty()) return;
  llvm::Expected<DataSpec> spec = DataSpec::Parse(flag, text);
  if (!spec) return llvm::consumeError(spec.takeError());
  std::vector<DataFiles> all;
  for (const auto& [name, files] : spec->inputs) all.push_back(files);
  if (spec->others) all.push_back(*spec->others);
  for (const DataFiles& files : all) {
    auto paths = FindFiles(files.pattern);
    if (!paths) {
      llvm::consumeError(paths.takeError());
      continue;
    }
    for (const std::string& path : *paths) inputs.push_back({.flag = flag, .path = path, .replaced_by = {}});
  }
}

}  // namespace act
