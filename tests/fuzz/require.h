// What a fuzz target holds true of every input.
#pragma once

#include <string_view>

namespace act::fuzz {

// Prints what is wrong, and aborts.
[[noreturn]] void Fail(std::string_view what);

inline void Require(bool holds, std::string_view what) {
  if (!holds) Fail(what);
}

}  // namespace act::fuzz
