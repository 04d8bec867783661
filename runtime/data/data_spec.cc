#include "runtime/data/data_spec.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/array_file.h"

namespace act {
namespace {

// "FILE.safetensors:TENSOR", "FILE".
DataFiles FilesOf(const std::string& text) {
  const std::string mark = ".safetensors:";
  const size_t at = text.find(mark);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at + mark.size() - 1), text.substr(at + mark.size())};
}

}  // namespace

llvm::Expected<DataSpec> DataSpec::Parse(const std::string& flag, const std::string& text) {
  DataSpec spec;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    // Input names hold no '=' in practice; file names may.
    const size_t equals = item.find('=');
    if (equals == std::string::npos && IsSafetensorsName(item)) {
      if (spec.others)
        return MakeError(flag, "'" + item + "' and '" + spec.others->pattern + "' would both hold all inputs",
                         "write NAME=" + item);
      spec.others = DataFiles{item, ""};
      continue;
    }
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
      return MakeError(
          flag, "'" + item + "' is not NAME=FILE.npy, NAME=FILE.safetensors[:TENSOR] or FILE.safetensors");
    }
    if (!spec.inputs.emplace(item.substr(0, equals), FilesOf(item.substr(equals + 1))).second)
      return MakeError(flag, "input '" + item.substr(0, equals) + "' is given twice");
  }
  return spec;
}

llvm::Expected<std::vector<std::string>> FindFiles(const std::string& pattern) {
  std::error_code ignored;
  if (std::filesystem::is_directory(pattern, ignored))
    return MakeError(pattern, "a folder, not a file", "name its files: " + pattern + "/*.npy");
  if (pattern.find_first_of("*?[") == std::string::npos || std::filesystem::exists(pattern, ignored))
    return std::vector<std::string>{pattern};
  glob_t found = {};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOSPACE) return MakeError(pattern, "matches too many files");
  if (paths.empty()) return MakeError(pattern, "no file matches");
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace act
