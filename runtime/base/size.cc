#include "runtime/base/size.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/dim.h"

namespace act {

std::optional<int64_t> ParseSize(std::string_view text) {
  const std::string s(text);
  char* end = nullptr;
  const double number = std::strtod(s.c_str(), &end);
  if (end == s.c_str() || !std::isfinite(number) || number < 0) return std::nullopt;
  static constexpr struct {
    const char* suffix;
    double factor;
  } kUnits[] = {{"", 1},     {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  for (const auto& unit : kUnits) {
    if (std::string_view(end) != unit.suffix) continue;
    const double bytes = number * unit.factor;
    if (bytes >= static_cast<double>(kTooLarge)) return std::nullopt;
    return static_cast<int64_t>(bytes);
  }
  return std::nullopt;
}

std::string FormatSize(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (std::fabs(value) >= 1024 && unit < 5) value /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text,
                unit == 0    ? "%.0f %s"
                : value < 10 ? "%.2f %s"
                             : "%.1f %s",
                value, kUnits[unit]);
  return text;
}

}  // namespace act
