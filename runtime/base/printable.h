// Text from files and command lines, as messages show it.
#pragma once

#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringRef.h>

#include <string>

namespace act {

// The text with control characters written out: "\x0A". A name in a file may hold line breaks, which would
// end a message's line early, and a terminal's commands.
inline std::string Printable(llvm::StringRef text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      shown += c;
    else
      shown += {'\\', 'x', llvm::hexdigit(byte >> 4), llvm::hexdigit(byte & 15)};
  }
  return shown;
}

// The same of several lines: those set off by two spaces stay lines, since they look like no message.
inline std::string PrintableLines(llvm::StringRef text) {
  constexpr llvm::StringLiteral kLine = "\n  ";
  std::string shown;
  for (size_t end = text.find(kLine); end != llvm::StringRef::npos; end = text.find(kLine)) {
    shown += Printable(text.take_front(end)) + kLine.str();
    text = text.drop_front(end + kLine.size());
  }
  return shown + Printable(text);
}

}  // namespace act
