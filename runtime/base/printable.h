// Text from files and command lines, as messages show it.
#pragma once

#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringRef.h>

#include <string>

namespace act {

// The text with control characters written out: "\x0A". A name in a file may hold line breaks, which would
// end a message's line early, and a terminal's commands. `kept`: a control character that stays, if not 0.
inline std::string Printable(llvm::StringRef text, char kept = 0) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 && byte != 0x7f) || (kept != 0 && c == kept))
      shown += c;
    else
      shown += {'\\', 'x', llvm::hexdigit(byte >> 4), llvm::hexdigit(byte & 15)};
  }
  return shown;
}

}  // namespace act
