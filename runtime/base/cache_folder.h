// Where programs keep what can be made again.
#pragma once

#include <string>

namespace act {

// The value of the environment variable, else actrun in $XDG_CACHE_HOME or ~/.cache. Empty if there is none
// of them.
std::string CacheFolder(const char* variable);

}  // namespace act
