// What descriptions of kernels say of their scratch space.
#pragma once

#include <cstdint>
#include <string>

namespace act {

// "12 KiB workspace", rounded up.
inline std::string WorkspaceText(int64_t bytes) {
  return std::to_string((bytes + 1023) / 1024) + " KiB workspace";
}

}  // namespace act
