#include "runtime/base/json.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/base/error.h"

namespace act {
namespace {

// How many arrays and objects lie inside each other, at most. Brackets in strings do not count. Of a text that is no
// JSON it is at least the depth to which a parser gets.
int DepthOf(llvm::StringRef text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    } else {
      in_string = c == '"';
    }
  }
  return deepest;
}

}  // namespace

llvm::Expected<llvm::json::Value> ParseJson(llvm::StringRef text) {
  if (DepthOf(text) > kMostJsonDepth)
    return MakeError("", "arrays and objects are more than " + std::to_string(kMostJsonDepth) + " deep");
  return llvm::json::parse(text);
}

std::optional<int64_t> IntegerOf(const llvm::json::Value& value) {
  const auto number = value.getAsNumber();
  if (!number || !(std::fabs(*number) < 0x1p63)) return std::nullopt;
  if (const auto integer = value.getAsInteger()) return *integer;
  return std::nullopt;
}

llvm::json::Value NumberOrNull(std::optional<double> number) {
  return number && std::isfinite(*number) ? llvm::json::Value(*number) : llvm::json::Value(nullptr);
}

}  // namespace act
