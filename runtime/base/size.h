// Byte sizes as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace act {

// "16GiB", "16GB", "512MiB", "1.5e9", "4096" -> bytes. Nullopt for text that is not a size, or
// above 2^60.
std::optional<int64_t> ParseSize(std::string_view text);
// 1835008 -> "1.75 MiB".
std::string FormatSize(int64_t bytes);

}  // namespace act
