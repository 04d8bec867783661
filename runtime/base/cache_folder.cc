#include "runtime/base/cache_folder.h"

#include <cstdlib>

namespace act {
namespace {

std::string ValueOf(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

}  // namespace

std::string CacheFolder(const char* variable) {
  if (const std::string folder = ValueOf(variable); !folder.empty()) return folder;
  if (const std::string cache = ValueOf("XDG_CACHE_HOME"); !cache.empty()) return cache + "/actrun";
  const std::string home = ValueOf("HOME");
  return home.empty() ? "" : home + "/.cache/actrun";
}

}  // namespace act
