#include "runtime/data/data_spec.h"

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

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

// How many more names glob() may read. Its callbacks have no argument for this.
thread_local int64_t names_left = 0;

// glob(), which ends with GLOB_ABORTED after it has read most_names names of folders.
int Glob(const std::string& pattern, int64_t most_names, glob_t& found) {
  names_left = most_names;
  found.gl_opendir = [](const char* path) -> void* { return names_left < 0 ? nullptr : opendir(path); };
  found.gl_readdir = [](void* folder) -> dirent* {
    return --names_left < 0 ? nullptr : readdir(static_cast<DIR*>(folder));
  };
  found.gl_closedir = [](void* folder) { closedir(static_cast<DIR*>(folder)); };
  found.gl_stat = stat;
  found.gl_lstat = lstat;
  // A folder that cannot be read has no names.
  const auto on_error = [](const char*, int) { return names_left < 0 ? 1 : 0; };
  const int result = glob(pattern.c_str(), GLOB_NOSORT | GLOB_ALTDIRFUNC, on_error, &found);
  return names_left < 0 ? GLOB_ABORTED : result;
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
          flag, "'" + item + "' is not NAME=FILE.npy, NAME=FILE.safetensors[:TENSOR] or FILE.safetensors",
          "as " + flag + "=image=x.npy,label=y.npy");
    }
    if (!spec.inputs.emplace(item.substr(0, equals), FilesOf(item.substr(equals + 1))).second)
      return MakeError(flag, "input '" + item.substr(0, equals) + "' is given twice");
  }
  return spec;
}

llvm::Expected<std::vector<std::string>> FindFiles(const std::string& pattern, int64_t most_names) {
  std::error_code ignored;
  if (std::filesystem::is_directory(pattern, ignored))
    return MakeError(pattern, "a folder, not a file", "name its files: " + pattern + "/*.npy");
  if (pattern.find_first_of("*?[") == std::string::npos || std::filesystem::exists(pattern, ignored))
    return std::vector<std::string>{pattern};
  constexpr int kMostFolders = 100;  // glob() takes 4 KiB of stack for each
  if (std::count(pattern.begin(), pattern.end(), '/') > kMostFolders)
    return MakeError(pattern, "a pattern of more than " + std::to_string(kMostFolders) + " folders",
                     "name the folder by a shorter path");
  glob_t found = {};
  const int result = Glob(pattern, most_names, found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOSPACE) return MakeError(pattern, "matches too many files");
  if (result == GLOB_ABORTED)
    return MakeError(pattern, "more than " + std::to_string(most_names) + " names would be compared with it",
                     "name the folder, and use * for its files only");
  if (paths.empty()) return MakeError(pattern, "no file matches");
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace act
