// A 64-bit hash of text, the same on every machine. It names things; it is no protection against forgery.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace act {

inline constexpr uint64_t kEmptyHash = 0xcbf29ce484222325;

// FNV-1a. The hash of text that goes on after text whose hash is `before`.
inline uint64_t HashOf(std::string_view text, uint64_t before = kEmptyHash) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return before;
}

// 16 digits.
inline std::string HexOf(uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace act
